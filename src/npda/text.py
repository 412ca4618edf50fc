"""Text to tokens and back: a SentencePiece vocabulary in the files of transformers' Speech2TextTokenizer."""

import hashlib
import io
import json
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json

logger = logging.getLogger(__name__)

# The languages Speech2TextTokenizer knows under lang_codes="mustc"; it wants the tags of all or of none.
MUSTC_LANGUAGES = ("pt", "fr", "ru", "nl", "ro", "it", "es", "de")

_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_TAG = re.compile(r"<lang:(\S+)>")
_MODEL = "sentencepiece.bpe.model"
_IDS = "vocab.json"
_CONFIG = "tokenizer_config.json"
_LANGUAGES_KEY = "npda_languages"
_LANGUAGE_KEY = "npda_language"


class Vocabulary:
    """SentencePiece pieces with the ids of a model.

    A piece's id is what vocab.json says. In a vocabulary trained here that is the id inside the SentencePiece
    model as well; in checkpoints converted from fairseq it need not be.
    """

    bos = 0
    pad = 1
    eos = 2
    unk = 3

    def __init__(
        self,
        model: bytes,
        ids: dict[str, int],
        languages: Sequence[str] = (),
        uppercase: bool = False,
        language: str = "",
    ):
        """model: a serialised SentencePiece model; ids: the id of every piece; languages: with a tag each;
        uppercase: decode to capitals, as some public checkpoints want it; language: that the model knows without a
        tag, its only one, where that is known"""
        self.languages = tuple(languages)
        self.language = language
        self._model = model
        self._ids = ids
        self._pieces = {id_: piece for piece, id_ in ids.items() if not self._is_mark(piece)}
        self._uppercase = uppercase
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(cls, sentences: Iterable[str], size: int, languages: Sequence[str] = ()) -> "Vocabulary":
        """Train a unigram vocabulary of at most `size` pieces; the same sentences give the same bytes.

        A text too small for so many pieces gives fewer, with a warning. Languages get a tag each to force as
        the first target token; if all of them are in MuST-C, its other languages do too, for transformers.
        """
        tagged = MUSTC_LANGUAGES if languages and set(languages) <= set(MUSTC_LANGUAGES) else languages
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type="unigram",
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="nmt_nfkc",
                bos_id=cls.bos,
                pad_id=cls.pad,
                eos_id=cls.eos,
                unk_id=cls.unk,
                user_defined_symbols=[f"<lang:{language}>" for language in tagged],
                # In bytes; the default would leave out long sentences without a word.
                max_sentence_length=1 << 16,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise InputError(f"A vocabulary of {size} pieces cannot be trained: {_reason(error)}.") from None
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        ids = {processor.id_to_piece(id_): id_ for id_ in range(processor.get_piece_size())}
        if len(ids) < size:
            logger.warning("The text yields only %d of the %d pieces asked for.", len(ids), size)
        return cls(model.getvalue(), ids, languages)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin, end or language tag."""
        return [self._ids.get(piece, self.unk) for piece in self._processor.encode(text, out_type=str)]

    def segmentations(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """The likeliest ways to cut a text into pieces, that of ``encode`` first: their ids and log-probabilities.

        Unknown characters, which remain one by one in all of them, do not count.
        """
        processor = self._processor
        try:
            found = processor.nbest_encode(text, nbest_size=count, out_type=str)
        except RuntimeError:
            raise InputError(
                "The vocabulary of transcripts knows one way to write a word only, as it is no unigram model: "
                "leave subword sampling out."
            ) from None
        return [
            (
                [self._ids.get(piece, self.unk) for piece in pieces],
                sum(processor.get_score(processor.piece_to_id(piece)) for piece in pieces),
            )
            for pieces in found
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials, unknowns and language tags are left out."""
        pieces = [self._pieces[int(id_)] for id_ in ids if int(id_) in self._pieces]
        text = self._processor.decode(pieces).strip()
        return text.upper() if self._uppercase else text

    def language_id(self, language: str) -> int:
        """The id of the tag that makes a multilingual decoder speak `language`."""
        if language not in self.languages:
            known = f"knows {', '.join(self.languages)}" if self.languages else "has no language tags"
            raise InputError(f"The vocabulary has no tag for the language {language!r}; it {known}.")
        return self._ids[f"<lang:{language}>"]

    def digest(self) -> str:
        """SHA-256 of the model and of the ids: two vocabularies of one digest encode alike."""
        ids = json.dumps(self._ids, sort_keys=True).encode()
        return hashlib.sha256(self._model + ids).hexdigest()

    def __len__(self) -> int:
        return len(self._ids)

    def save(self, directory: str | Path) -> None:
        """Write the three files from which Speech2TextTokenizer.from_pretrained opens the same vocabulary."""
        directory = Path(directory)
        config: dict = {
            "tokenizer_class": "Speech2TextTokenizer",
            "processor_class": "Speech2TextProcessor",
            "bos_token": "<s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "do_lower_case": False,
            "do_upper_case": self._uppercase,
        }
        if self.languages:
            config[_LANGUAGES_KEY] = list(self.languages)
            if set(self.languages) <= set(MUSTC_LANGUAGES):
                config |= {"lang_codes": "mustc", "tgt_lang": self.languages[0]}
        if self.language and not self.languages:
            config[_LANGUAGE_KEY] = self.language
        with atomic_write(directory / _MODEL) as temporary:
            temporary.write_bytes(self._model)
        for name, content in ((_IDS, self._ids), (_CONFIG, config)):
            with atomic_write(directory / name) as temporary:
                temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | Path) -> "Vocabulary":
        """Open what `save` or transformers wrote."""
        directory = Path(directory)
        ids = _checked_ids(directory / _IDS)
        try:
            model = (directory / _MODEL).read_bytes()
        except OSError as error:
            raise InputError(f"{directory / _MODEL} cannot be read: {error.strerror}.") from None
        if not model:
            raise InputError(f"{directory / _MODEL} is empty; copy it again.")
        config = _read_json(directory / _CONFIG) if (directory / _CONFIG).is_file() else {}
        tagged = [match[1] for piece in ids if (match := _TAG.fullmatch(piece))]
        languages = config.get(_LANGUAGES_KEY, tagged)
        if not isinstance(languages, list) or not set(map(str, languages)) <= set(tagged):
            raise InputError(f"{directory / _CONFIG}: {_LANGUAGES_KEY} names a language without a tag in {_IDS}.")
        try:
            return cls(
                model,
                ids,
                languages,
                uppercase=bool(config.get("do_upper_case", False)),
                language=str(config.get(_LANGUAGE_KEY, "")),
            )
        except RuntimeError:
            raise InputError(f"{directory / _MODEL} is not a SentencePiece model; copy it again.") from None

    @staticmethod
    def _is_mark(piece: str) -> bool:
        return piece in _SPECIALS or _TAG.fullmatch(piece) is not None


def _reason(error: RuntimeError) -> str:
    """SentencePiece's complaint without the place in its source."""
    message = str(error).strip()
    if needed := re.search(r"smaller than required_chars[^\d]*\d+ vs (\d+)", message):
        return f"its characters alone need {needed[1]}, ask for more"
    if "sentences_.empty()" in message or not message:
        return "there is no text"
    return message.split("] ")[-1].rstrip(". ") or message


def _checked_ids(path: Path) -> dict[str, int]:
    ids = _read_json(path)
    if not all(isinstance(id_, int) for id_ in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"{path} must give its pieces the ids 0 to {len(ids) - 1}, each once.")
    if [ids.get(piece) for piece in _SPECIALS] != [0, 1, 2, 3]:
        raise InputError(f"{path} must give <s>, <pad>, </s> and <unk> the ids 0, 1, 2 and 3.")
    return ids


def _read_json(path: Path) -> dict:
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise InputError(f"{path.parent} has no {path.name}; is it the directory of a model?") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not readable JSON ({error}).") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a JSON object.")
    return content
