"""The command line as a user meets it: real processes, exit codes, one sentence for every fault."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import said
import soundfile
import tiny
from command_line import npda

from npda.corpus.manifest import Utterance, write_manifest

VERBS = [
    "adapt",
    "align",
    "build",
    "demo",
    "evaluate",
    "explain",
    "filter",
    "inspect",
    "mini",
    "prepare",
    "remove",
    "reproduce",
    "synthesize",
    "train",
    "train-text",
    "translate",
    "tune",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    tiny.backbone().save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A short wav and a longer stereo flac at another rate."""
    directory = tmp_path_factory.mktemp("audio")
    spoken = said.speech(40_000)
    soundfile.write(directory / "short.wav", spoken[:16_000], 16_000)
    soundfile.write(directory / "long.flac", np.stack([spoken, spoken], axis=1), 22_050)
    return directory


def test_help_names_every_verb():
    answer = npda("--help", env={"COLUMNS": "100"})
    assert answer.returncode == 0
    for verb in VERBS:
        assert f" {verb} " in answer.stdout


def test_help_answers_at_once():
    """A third of a second on an idle machine: little more than the libraries that draw it, and none that compute."""
    drawing = "import typer; from rich.console import Console; from rich.markdown import Markdown"
    drawn = f"{drawing}; Console().print(Markdown('*help*'))"
    helped = "from npda.cli import main; main()"
    ways = ([sys.executable, "-c", drawn], [sys.executable, "-c", helped, "--help"])
    plain, ours = np.min([[_processor_seconds(way) for way in ways] for _ in range(3)], axis=0)
    assert ours < 5 * plain
    imported = subprocess.run([sys.executable, "-X", "importtime", *ways[1][1:]], capture_output=True, text=True)
    names = {line.rsplit("|", 1)[-1].strip() for line in imported.stderr.splitlines()}
    assert "npda.cli" in names
    assert not names & {"torch", "numpy", "transformers", "faiss", "matplotlib", "pydantic", "sacrebleu"}


def test_translating_a_sentence_imports_no_other_family_and_no_compiler(recordings):
    """Each of these took as long as everything else together."""
    fixture = Path(__file__).parents[1] / "fixtures" / "version-0.1.0"
    model = fixture.parents[2] / "src" / "npda" / "pretrained" / "mini-en-de"
    program = (
        "import sys\nfrom npda.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    given = [recordings / "short.wav", "--model", model, "--store", fixture / "tuned", "--max-length", "5"]
    done = subprocess.run(
        [sys.executable, "-c", program, "translate", *map(str, given)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert {"npda.models.speech2text", "npda.decoding.knn.fusion", "torch", "faiss"} <= loaded
    assert not loaded & {"transformers", "huggingface_hub", "torch._dynamo", "sympy", "accelerate", "matplotlib"}
    assert not [
        name for name in loaded if name.startswith(("npda.training", "npda.evaluation", "npda.datastore.build"))
    ]


def _processor_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples(verb):
    answer = npda(verb, "--help")
    assert answer.returncode == 0
    assert f"npda {verb}" in answer.stdout.split("Examples:")[1]


def test_translate_writes_every_format(model, recordings):
    files = [recordings / "short.wav", recordings / "long.flac"]
    text = npda("translate", *files, "--model", model, "--max-length", 5)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.split("\n")[:-1]
    assert len(lines) == 2

    records = npda("translate", *files, "--model", model, "--max-length", 5, "-f", "json", "--n-best", 3).stdout
    objects = [json.loads(line) for line in records.splitlines()]
    assert [o["text"] for o in objects] == lines
    (segment,) = objects[1]["segments"]
    assert segment["end"] == pytest.approx(40_000 / 22_050, abs=0.01)
    scores = [alternative["score"] for alternative in segment["nbest"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == segment["score"]


def test_translate_reads_a_manifest_and_writes_a_folder(model, recordings, tmp_path):
    rows = [Utterance(name, str(recordings / name), 100, "x") for name in ("short.wav", "long.flac")]
    write_manifest(tmp_path / "test.tsv", rows)
    hypotheses = tmp_path / "hypotheses.txt"
    assert npda("translate", tmp_path / "test.tsv", "--model", model, "-o", hypotheses).returncode == 0
    assert len(hypotheses.read_text().splitlines()) == 2
    answer = npda("translate", tmp_path / "test.tsv", "--model", model, "-f", "srt", "--output-dir", tmp_path / "out")
    assert answer.returncode == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"short.srt", "long.srt"}


def test_a_file_that_cannot_be_read_is_reported_and_skipped(model, recordings, tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF but not really")
    answer = npda("translate", broken, recordings / "short.wav", tmp_path / "none.mp3", "--model", model)
    assert answer.returncode == 2
    first, second, third = answer.stdout.split("\n")[:-1]
    assert first == third == ""
    assert second == npda("translate", recordings / "short.wav", "--model", model).stdout.rstrip("\n")
    assert "broken.wav" in answer.stderr
    assert "none.mp3" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["translate", "a.wav", "--model", "nowhere"], "nowhere"),
        (["translate", "missing.tsv", "--model", "{model}"], "missing.tsv"),
        (["translate", "a.wav", "--model", "{model}", "--n-best", "9"], "--beam 9"),
        (["translate", "a.wav", "--model", "{model}", "-o", "x", "--output-dir", "y"], "--output-dir"),
        (["evaluate", "no-hypotheses.txt", "no-references.txt"], "no-hypotheses.txt"),
        (["train", "no-train.tsv", "--dev", "no-dev.tsv", "--out", "run"], "no-train.tsv"),
        (["mini", "--language", "xx"], "'xx'"),
        (["demo", "--out", "{model}/config.json"], "config.json"),
    ],
)
def test_wrong_input_gets_one_sentence_and_exit_code_2(arguments, says, model, tmp_path):
    answer = npda(*(a.format(model=model) for a in arguments), cwd=tmp_path)
    assert answer.returncode == 2, answer.stderr
    assert says in answer.stderr
    assert answer.stderr.startswith("npda: ")
    assert answer.stderr.count("\n") == 1
    assert not any(tmp_path.iterdir())
