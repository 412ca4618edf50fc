"""What holds of a datastore in every family of models: built from text it steers decoding, and it knows its model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_store

from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.io.errors import InputError
from npda.translator import Translator


def steers_and_belongs(
    model: Any,
    stranger: Any,
    waves: Sequence[np.ndarray],
    search: SearchOptions,
    folder: Path,
    language: str | None = None,
) -> None:
    """stranger: of the same family, with other weights"""
    pairs = tiny_store.pairs(20)
    options = BuildOptions(language=language, progress=False)
    store = Datastore.build(model, pairs, folder / "own", options=options)
    assert len(store) == sum(len(model.target.encode(pair.tgt_text)) + 1 for pair in pairs)
    translator = Translator(model)
    plain = list(translator.translate_all(waves, search, language))
    fusion = translator.neighbours([store], KnnOptions(k=4, lambda_=0.99, temperature=100.0), language)
    steered = list(translator.translate_all(waves, search, language, fusions=[fusion]))
    assert all(item is not None for item in (*plain, *steered))
    assert [str(item) for item in plain] != [str(item) for item in steered]

    other = tiny_store.backbone()
    with pytest.raises(InputError, match="build a datastore with this model"):
        store.check(other)
    theirs = Datastore.build(other, tiny_store.pairs(5), folder / "s2t", options=BuildOptions(progress=False))
    with pytest.raises(InputError, match="build a datastore with this model"):
        theirs.check(model)
    with pytest.raises(InputError, match="another model"):
        store.check(stranger)
