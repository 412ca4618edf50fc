"""The vocabulary, against transformers' Speech2TextTokenizer on the same files."""

import json
import random

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from transformers import Speech2TextProcessor, Speech2TextTokenizer

from npda.audio import Normalizer
from npda.io.errors import InputError
from npda.text import MUSTC_LANGUAGES, Vocabulary

COMMON = "der die das Haus Straße grün schön über müde Bürger fährt Katze Öl Ärger annehmen, heute. morgen?"
WORDS = [*COMMON.split(), *(a + b + c for a in ("Be", "ver", "Ab") for b in ("stim", "trag") for c in ("men", "ung"))]
TEXTS = ["der Bürger fährt über die Straße", "Größe", "漢字 und Öl 🙂", 'Er sagt: "Nein"', "  zwei   Räume ", ""]


def sentences(count: int = 400) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.train(sentences(), 120)


@pytest.fixture(scope="module")
def multilingual() -> Vocabulary:
    return Vocabulary.train(sentences(), 120, languages=("de", "fr"))


def test_round_trip_and_specials(vocabulary):
    assert (Vocabulary.bos, Vocabulary.pad, Vocabulary.eos, Vocabulary.unk) == (0, 1, 2, 3)
    for sentence in sentences(50):
        ids = vocabulary.encode(sentence)
        assert min(ids) > 3
        assert max(ids) < len(vocabulary)
        assert vocabulary.decode(ids) == sentence
        assert vocabulary.decode([2, *ids, 2, 1, 1]) == sentence
    assert Vocabulary.unk in vocabulary.encode("漢字")
    assert vocabulary.decode([Vocabulary.unk]) == ""
    assert vocabulary.encode("") == []
    # nmt_nfkc: a ligature and a full-width letter become plain ones.
    assert vocabulary.encode("ﬁ Ａ") == vocabulary.encode("fi A")


@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_decode_inverts_encode(vocabulary, words):
    text = " ".join(words)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_training_is_deterministic(vocabulary):
    again = Vocabulary.train(iter(sentences()), 120)
    assert again.digest() == vocabulary.digest()
    assert Vocabulary.train(sentences(399), 120).digest() != vocabulary.digest()


def test_size(caplog):
    assert len(Vocabulary.train(sentences(), 60)) == 60
    assert caplog.text == ""
    small = Vocabulary.train(["ein Haus", "zwei Häuser"], 1000)
    assert len(small) < 50
    assert f"only {len(small)} of the 1000 pieces" in caplog.text
    with pytest.raises(InputError, match=r"vocabulary of 10 pieces .* characters alone need \d+"):
        Vocabulary.train(sentences(), 10)
    with pytest.raises(InputError, match="there is no text"):
        Vocabulary.train([], 100)


def test_long_sentences_are_heard():
    rare = "y" * 5000
    assert Vocabulary.unk not in Vocabulary.train([*sentences(), rare], 120).encode("y")


def test_transformers_opens_what_is_saved(tmp_path, vocabulary):
    vocabulary.save(tmp_path)
    tokenizer = Speech2TextTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == tokenizer.vocab_size == len(vocabulary)
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id) == (Vocabulary.bos, Vocabulary.pad)
    assert (tokenizer.eos_token_id, tokenizer.unk_token_id) == (Vocabulary.eos, Vocabulary.unk)
    for text in [*sentences(50), *TEXTS]:
        ids = tokenizer(text)["input_ids"]
        assert ids == [*vocabulary.encode(text), Vocabulary.eos]
        assert vocabulary.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)


def test_transformers_opens_the_processor(tmp_path, vocabulary):
    vocabulary.save(tmp_path)
    Normalizer().save(tmp_path)
    processor = Speech2TextProcessor.from_pretrained(tmp_path)
    assert processor(text="Größe Öl")["input_ids"][:-1] == vocabulary.encode("Größe Öl")
    processor.save_pretrained(tmp_path / "again")
    assert Vocabulary.load(tmp_path / "again").digest() == vocabulary.digest()
    assert Normalizer.load(tmp_path / "again").mean is None


def test_load_what_is_saved(tmp_path, vocabulary, multilingual):
    for index, saved in enumerate((vocabulary, multilingual)):
        saved.save(tmp_path / str(index))
        loaded = Vocabulary.load(tmp_path / str(index))
        assert loaded.digest() == saved.digest()
        assert loaded.languages == saved.languages
        assert [loaded.encode(text) for text in TEXTS] == [saved.encode(text) for text in TEXTS]


def test_ids_come_from_vocab_json(tmp_path, vocabulary):
    """As in the public checkpoints: the ids of vocab.json are not those inside the SentencePiece model."""
    vocabulary.save(tmp_path)
    pieces = list(json.loads((tmp_path / "vocab.json").read_text()))
    order = pieces[:4] + sorted(pieces[4:], reverse=True)
    (tmp_path / "vocab.json").write_text(json.dumps({piece: id_ for id_, piece in enumerate(order)}))
    shuffled = Vocabulary.load(tmp_path)
    tokenizer = Speech2TextTokenizer.from_pretrained(tmp_path)
    for text in [*sentences(50), *TEXTS]:
        assert shuffled.encode(text) == tokenizer(text)["input_ids"][:-1]
        assert shuffled.decode(shuffled.encode(text)) == vocabulary.decode(vocabulary.encode(text))
    assert shuffled.encode(WORDS[3]) != vocabulary.encode(WORDS[3])
    assert shuffled.digest() != vocabulary.digest()
    tokenizer.save_pretrained(tmp_path / "again")
    assert Vocabulary.load(tmp_path / "again").digest() == shuffled.digest()


def test_capitals_of_public_checkpoints(tmp_path, vocabulary):
    vocabulary.save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"do_upper_case": True}))
    loaded, tokenizer = Vocabulary.load(tmp_path), Speech2TextTokenizer.from_pretrained(tmp_path)
    ids = loaded.encode("das Haus")
    assert loaded.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True) == "DAS HAUS"


def test_language_tags_of_mustc(tmp_path, multilingual):
    assert multilingual.languages == ("de", "fr")
    multilingual.save(tmp_path)
    tokenizer = Speech2TextTokenizer.from_pretrained(tmp_path)
    assert set(tokenizer.lang_code_to_id) == set(MUSTC_LANGUAGES)
    text = "der Bürger fährt über die Straße"
    for language in ("de", "fr"):
        tokenizer.tgt_lang = language
        ids = tokenizer(text)["input_ids"]
        assert ids == [multilingual.language_id(language), *multilingual.encode(text), Vocabulary.eos]
        assert multilingual.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True) == text
    assert Speech2TextTokenizer.from_pretrained(tmp_path).tgt_lang == "de"


def test_language_tags_beyond_mustc(tmp_path):
    vocabulary = Vocabulary.train(sentences(), 120, languages=("de", "ja"))
    vocabulary.save(tmp_path)
    loaded = Vocabulary.load(tmp_path)
    assert loaded.languages == ("de", "ja")
    assert loaded.language_id("ja") != loaded.language_id("de")
    assert loaded.decode([loaded.language_id("ja"), *loaded.encode("Haus")]) == "Haus"
    assert Speech2TextTokenizer.from_pretrained(tmp_path)("Haus")["input_ids"][:-1] == loaded.encode("Haus")


def test_an_unknown_language_is_named(vocabulary, multilingual):
    with pytest.raises(InputError, match="no tag for the language 'xx'; it knows de, fr"):
        multilingual.language_id("xx")
    with pytest.raises(InputError, match="it has no language tags"):
        vocabulary.language_id("de")


def test_tags_of_a_foreign_directory_are_found(tmp_path, multilingual):
    multilingual.save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert set(Vocabulary.load(tmp_path).languages) == set(MUSTC_LANGUAGES)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("vocab.json", None, "has no vocab.json"),
        ("vocab.json", "{", "not readable JSON"),
        ("vocab.json", "[]", "must hold a JSON object"),
        ("vocab.json", '{"<s>": 0, "<pad>": 2}', "ids 0 to 1, each once"),
        ("vocab.json", '{"<s>": 1, "<pad>": 0, "</s>": 2, "<unk>": 3}', "must give <s>"),
        ("sentencepiece.bpe.model", None, "cannot be read"),
        ("sentencepiece.bpe.model", "nonsense", "not a SentencePiece model"),
        ("tokenizer_config.json", '{"npda_languages": ["de"]}', "language without a tag"),
    ],
)
def test_a_wrong_directory_is_named(tmp_path, vocabulary, name, content, complaint):
    vocabulary.save(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=complaint):
        Vocabulary.load(tmp_path)


def test_ids_in_the_model_are_those_of_vocab_json(tmp_path, vocabulary):
    vocabulary.save(tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    for text in TEXTS:
        assert processor.encode(text) == vocabulary.encode(text)
