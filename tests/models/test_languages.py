"""A model is never asked for a language that it does not know."""

import logging
from pathlib import Path

import pytest
import tiny
import tiny_text2text

from npda.corpus.manifest import Utterance, read_manifest, write_manifest
from npda.corpus.pairs import Pair, read_pairs, write_pairs
from npda.datastore.encode import Encoder
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.languages import _trusted
from npda.models.speech2text import Speech2Text
from npda.text import Vocabulary
from npda.training.tasks.speech import _tell_languages
from npda.translator import Translator


@pytest.fixture
def model() -> Speech2Text:
    """From English into German, and not from a cache that other tests share."""
    made = tiny.backbone()
    known = tiny.vocabulary()
    made.target = Vocabulary(known._model, known._ids, language="de")
    made.source = Vocabulary(known._model, known._ids, language="en")
    return made


def test_a_model_of_one_language_is_asked_for_no_other(model: Speech2Text, tmp_path: Path):
    model.save_pretrained(tmp_path)
    opened = load_backbone(tmp_path, "en")
    assert opened.prompt("de") == opened.prompt("German") == opened.prompt("de-AT") == opened.prompt()
    for language in ("fr", "../../x", "klingon", "tlh"):
        with pytest.raises(InputError, match=r"language|write de only"):
            opened.prompt(language)
        with pytest.raises(InputError, match=r"language|hear en only"):
            load_backbone(tmp_path, language)
        with pytest.raises(InputError, match=r"language|hear en only"):
            Translator(opened).hearing(language)


def test_models_that_do_not_say_are_trusted_aloud(caplog: pytest.LogCaptureFixture):
    _trusted.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert tiny_text2text.model().prompt("fr") == tiny_text2text.model().prompt()
    assert [record.message for record in caplog.records] == [
        "The model does not say which languages it can write, so npda cannot tell whether fr is one of them."
    ]
    with pytest.raises(InputError, match="no language called 'klingon'"):
        tiny_text2text.model().prompt("klingon")


@pytest.mark.parametrize("knows", ["de", ""])
def test_sentences_of_several_languages_make_no_store(knows: str, model: Speech2Text):
    model.target.language = knows
    model.add_text_encoder(1)
    pairs = [Pair("the floor is yours", "das Wort hat", "a", "de"), Pair("the floor", "le parquet", "b", "fr")]
    with pytest.raises(InputError, match="fr"):
        Encoder(model).encode(pairs)


def test_tables_name_languages_and_nothing_else(tmp_path: Path):
    write_pairs(tmp_path / "pairs.tsv", [Pair("a", "b", "1", "de"), Pair("c", "d", "2", "../../x")])
    with pytest.raises(InputError, match=r"pairs\.tsv, line 3, column tgt_lang: '../../x' is not a language"):
        read_pairs(tmp_path / "pairs.tsv")
    row = Utterance("1", "a.wav", 10, "b", src_lang="en", tgt_lang="de")
    write_manifest(tmp_path / "speech.tsv", [row])
    content = (tmp_path / "speech.tsv").read_text().replace("\ten\t", "\te n\t")
    (tmp_path / "speech.tsv").write_text(content)
    with pytest.raises(InputError, match=r"speech\.tsv, line 2, column src_lang: 'e n' is not a language"):
        read_manifest(tmp_path / "speech.tsv")


def test_training_remembers_the_languages(model: Speech2Text):
    def heard(source: str, target: str) -> Utterance:
        return Utterance("1", "a.wav", 10, "b", src_lang=source, tgt_lang=target)

    assert model.source is not None
    _tell_languages(model, "st", [heard("fr", "nl")])
    assert (model.source.language, model.target.language) == ("fr", "nl")
    _tell_languages(model, "asr", [heard("fr", "nl")])
    assert (model.source.language, model.target.language) == ("fr", "fr")
    _tell_languages(model, "st", [heard("fr", "nl"), heard("fr", "de")])
    assert (model.source.language, model.target.language) == ("fr", "")


def test_the_model_of_the_demo_knows_its_languages():
    shipped = Path(load_backbone.__code__.co_filename).parents[1] / "pretrained" / "mini-en-de"
    with pytest.raises(InputError, match="write de only, not 'fr'"):
        load_backbone(shipped, "en").prompt("fr")
    with pytest.raises(InputError, match="hear en only, not 'fr'"):
        load_backbone(shipped, "fr")
