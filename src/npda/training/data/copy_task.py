"""The copy task: a frozen decoder that can transcribe writes down what the text path reads.

It takes text of the spoken language and nothing else, runs from left to right, and so is learnt long before
translation; the decoder's ability to translate comes along, because both tasks read the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from npda.corpus.pairs import Pair
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.training.data.text import TextData, read_sources


def copy_data(files: Sequence[str | Path], transcripts: Iterable[str], backbone: Backbone) -> TextData:
    """Every sentence as its own target. files: as ``read_sources`` takes them"""
    language = backbone.source_language
    if language is None:
        raise InputError(
            "This model cannot write down what is said, so it cannot learn from text of the spoken language: "
            "leave --text out, or name the spoken language if it is a model of many."
        )
    sentences = (text for texts in (read_sources(files), transcripts) for text in texts)
    return TextData((Pair(text, text, tgt_lang=language) for text in sentences), backbone)
