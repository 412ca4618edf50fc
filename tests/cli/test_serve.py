"""npda serve: every wrong option gets a sentence; what is right starts, answers and ends well."""

import signal
import socket
from pathlib import Path

import httpx
import pytest
from served import served
from typer.testing import CliRunner

from npda.cli import app
from npda.demo.model import SHIPPED
from npda.io.errors import InputError
from npda.serving.listening import listen

MODEL = ("--model", str(SHIPPED))
SECRET = "correct-horse-battery"


def check(folder: Path, *arguments: object, environment: str = "") -> str:
    """What `npda serve --check` says. An InputError is what `npda` turns into a sentence and exit code 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("NPDA_API_KEY", environment)
        answer = CliRunner().invoke(app, ["serve", "--check", *map(str, arguments)])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_options_can_be_checked_without_starting_or_writing_anything(tmp_path):
    assert "Nothing is wrong" in check(tmp_path)
    check(tmp_path, *MODEL, "--host", "0.0.0.0", "--api-key", f"anna:{SECRET}")
    check(tmp_path, *MODEL, "--host", "0.0.0.0", environment=f"anna:{SECRET}, bert:another-{SECRET}:translate")
    check(tmp_path, *MODEL, "--host", "0.0.0.0", "--open")
    check(tmp_path, *MODEL, "--origin", "https://example.org", "--origin", "http://localhost:3000/")
    check(tmp_path, "--model", f"a={SHIPPED}", "--model", f"b={SHIPPED}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "nowhere"), "nowhere is not a model directory"),
        (("--model", f"two words={SHIPPED}"), "cannot be called 'two words'"),
        (("--model", f"=={SHIPPED}"), "cannot be called ''"),
        ((*MODEL, *MODEL), "Two models are called mini-en-de"),
        (("--stores", "."), "--stores needs the --model"),
        ((*MODEL, "--stores", "nowhere"), "no folder nowhere"),
        ((*MODEL, "--data", "file"), "file is a file"),
        ((*MODEL, "--examples", "."), "has no clips.json"),
        ((*MODEL, "--host", "0.0.0.0"), "--api-key"),
        ((*MODEL, "--host", "example.org"), "--api-key"),
        ((*MODEL, "--api-key", SECRET), "NAME:SECRET"),
        ((*MODEL, "--api-key", f":{SECRET}"), "NAME:SECRET"),
        ((*MODEL, "--api-key", f"anna:{SECRET}:write"), "NAME:SECRET:translate"),
        ((*MODEL, "--api-key", "anna:short"), "12 letters"),
        ((*MODEL, "--api-key", "anna:has spaces in it"), "12 letters"),
        ((*MODEL, "--api-key", f"anna:{SECRET}", "--api-key", f"anna:other-{SECRET}"), "anna is given twice"),
        ((*MODEL, "--api-key", f"anna:{SECRET}", "--api-key", f"bert:{SECRET}"), "bert is given twice"),
        ((*MODEL, "--origin", "example.org"), "is not an origin"),
        ((*MODEL, "--origin", "*"), "is not an origin"),
        ((*MODEL, "--replicas", "2"), "give --ray ADDRESS too"),
        ((*MODEL, "--partial"), "give --ray ADDRESS too"),
        ((*MODEL, "--ray", "auto", "--replicas", "2", "--max-replicas", "1"), "--max-replicas 1 is less"),
        ((*MODEL, "--ray", "auto", "--port", "0"), "name one with --port"),
    ],
)
def test_wrong_options_get_a_sentence(tmp_path, arguments, says):
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        check(tmp_path, *arguments)
    assert says in str(caught.value)
    assert str(caught.value).endswith(".")
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "arguments",
    [("--port", "-1"), ("--port", "65536"), ("--batch", "0"), ("--queue", "0"), ("--timeout", "0"), ("--idle", "-1")],
)
def test_numbers_out_of_range_are_refused(arguments):
    answer = CliRunner().invoke(app, ["serve", "--check", *arguments])
    assert answer.exit_code == 2
    assert arguments[0] in answer.output


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_where_nothing_can_listen_gets_a_sentence(host):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="choose another --port"):
        listen(None, host, taken.getsockname()[1], lambda port: None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_starts_answers_and_ends_well(tmp_path, number):
    with served(tmp_path, *MODEL) as server:
        assert httpx.get(f"{server.url}/readyz").json()["status"] == "ready"
        assert "text/html" in httpx.get(server.url).headers["content-type"]
        assert server.end(number) == 0
        assert "Traceback" not in server.log.read_text()
