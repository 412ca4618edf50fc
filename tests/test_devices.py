"""Everything that computes with a model runs on an accelerator as well, here on a pretend one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import tiny_seamless
import tiny_speech_encoder_decoder
import tiny_store
import tiny_whisper
import torch
from pretend_device import DEVICE, MixedDevices, PretendDevice
from tiny_whisper import waveform

from npda.datastore.build import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.fusion import KnnFusion, KnnOptions
from npda.translator import Translator

SEARCH = SearchOptions(beam=3, max_length=12)
WAVES = [waveform(0.9, 1), waveform(0.5, 2)]


def _whisper() -> Any:
    model = tiny_whisper.backbone()
    torch.manual_seed(3)
    model.add_text_encoder(1)
    return model


def _speech_encoder_decoder() -> Any:
    model = tiny_speech_encoder_decoder.backbone()
    torch.manual_seed(3)
    model.add_text_encoder(1)
    return model


FAMILIES: dict[str, tuple[Callable[[], Any], str | None]] = {
    "speech2text": (tiny_store.backbone, None),
    "whisper": (_whisper, None),
    "seamless": (tiny_seamless.backbone, "de"),
    "speech_encoder_decoder": (_speech_encoder_decoder, "de"),
}


@pytest.fixture
def pretend() -> Iterator[torch.device]:
    with PretendDevice():
        yield DEVICE


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_builds_and_translates_alike(family: str, pretend: torch.device, tmp_path: Path) -> None:
    make, language = FAMILIES[family]
    model = make()
    moved = deepcopy(model).to(pretend)
    options = BuildOptions(language=language, progress=False)
    stores = [
        Datastore.build(each, tiny_store.pairs(8), tmp_path / name, options=options)
        for name, each in (("processor", model), ("accelerator", moved))
    ]
    keys = [np.concatenate([keys for _, keys in store.entries.blocks(100)]) for store in stores]
    np.testing.assert_allclose(*keys, rtol=1e-3, atol=1e-3)

    found = []
    for each in (model, moved):
        translator = Translator(each)
        fusion = translator.neighbours([stores[0]], KnnOptions(4, 0.5, 100.0), language)
        for fusions in ([], [fusion]):
            found.append([(t.text, t.score) for t in translator.translate_all(WAVES, SEARCH, language, fusions) if t])
    for alone, there in zip(found[:2], found[2:], strict=True):
        assert [text for text, _ in alone] == [text for text, _ in there]
        assert [score for _, score in alone] == pytest.approx([score for _, score in there], abs=1e-4)
