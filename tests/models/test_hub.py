"""Models by directory and by name."""

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.hub import model_directory, pinned_name


def test_a_directory_is_itself_even_if_it_is_named_like_a_model(tmp_path, monkeypatch):
    (tmp_path / "openai" / "whisper-base").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert str(model_directory("openai/whisper-base")) == "openai/whisper-base"


def test_a_name_is_fetched_without_pickled_weights(tmp_path, monkeypatch):
    asked = []

    def fetch(name, revision, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert model_directory("openai/whisper-base") == tmp_path
    ((name, patterns),) = asked
    assert name == "openai/whisper-base"
    assert not any(pattern.endswith((".bin", ".pt", ".py")) for pattern in patterns)


def test_the_commit_that_was_fetched_is_what_is_written_down(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--openai--whisper-base" / "snapshots" / commit
    asked = []

    def fetch(name, revision, allow_patterns):
        asked.append((name, revision))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    pinned = pinned_name(model_directory("openai/whisper-base"))
    assert pinned == f"openai/whisper-base@{commit}"
    assert model_directory(pinned) == snapshot
    assert asked == [("openai/whisper-base", None), ("openai/whisper-base", commit)]
    assert pinned_name(tmp_path / "model") == str(tmp_path / "model")


@pytest.mark.parametrize("reason", [LocalEntryNotFoundError("offline"), OSError("offline")])
def test_without_network_one_sentence_says_how_to_give_a_directory(monkeypatch, reason):
    def fail(*_, **__):
        raise reason

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InputError, match="--local-dir DIR`, then give that directory") as error:
        load_backbone("openai/whisper-base")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["runs", "/no/such", "a/b/c", "../up"])
def test_what_cannot_be_a_name_never_asks_the_hub(monkeypatch, name):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(InputError, match="not a model directory"):
        load_backbone(name)
