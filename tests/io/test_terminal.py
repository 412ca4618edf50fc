"""Text from elsewhere gives a terminal no orders."""

from io import StringIO

import pytest
import tiny_store
from rich.table import Table

from npda.cli.inspect import print_store
from npda.io.terminal import open_console, printable
from npda.writers import Result, Segment, write


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain text, äöü, 中文\n\tend", "plain text, äöü, 中文\n\tend"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("file\udcff.wav", "file\\udcff.wav"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("a\rb", "a\\rb"),
    ],
)
def test_orders_are_shown_and_not_obeyed(given: str, shown: str):
    assert printable(given) == shown


def test_names_in_a_foreign_store(tmp_path, capsys):
    store = tiny_store.store_of(tmp_path / "store", [tiny_store.clustered(30)])
    source = store.info.sources[0].model_copy(update={"name": "\x1b[31mred[/]", "voice": "\x9b1m"})
    store.info = store.info.model_copy(update={"sources": (source,)})
    print_store(store)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\\x1b[31mred[/]" in shown


def test_translations_on_a_terminal():
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), "a\\x1bb\n"), (StringIO(), "a\x1bb\n")):
        write([Result("x", [Segment(0, 1, "a\x1bb")])], "txt", stream)
        assert stream.getvalue() == shown


def test_tables_hold_no_markup_and_no_orders(capsys):
    table = Table("\x1b[31mred", title="[/x] :smile:", width=60)
    table.add_row("[bold]\x00")
    console = open_console(width=80)
    console.print(table)
    console.print("[/y]\x9b")
    shown = capsys.readouterr().out
    for words in ("\\x1b[31mred", "[/x] :smile:", "[bold]\\x00", "[/y]\\x9b"):
        assert words in shown
    assert printable(shown) == shown
