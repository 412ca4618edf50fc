"""From a corrected sentence to the keys that make it come out right the next time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import torch

from npda.audio import SAMPLE_RATE
from npda.corpus.languages import language_code
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.models.features import features_of
from npda.models.inputs import hear_batch
from npda.segmentation import Cutter, Pauses, best_detector
from npda.serving.engine.asks import Engine, Way
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.serving.stores.corrections import Belongs, Corrected, Correction, Corrections
from npda.serving.stores.library import StoreLibrary
from npda.terms.ear import can_hear, transcripts
from npda.translator import Translator

_SHORTEST = SAMPLE_RATE // 10  # samples; what is shorter is heard with silence after it


@dataclass(frozen=True)
class Wish:
    """samples: [n] float32 at 16 kHz of the sentence; heard: what was said, "" to let the model write it down"""

    samples: np.ndarray
    text: str
    heard: str = ""


class Correcting:
    """Adds corrections to stores, by the model that made the translations."""

    def __init__(self, settings: Settings, engine: Engine, library: StoreLibrary, kept: Corrections) -> None:
        self.kept = kept
        self._settings, self._engine, self._library = settings, engine, library

    async def add(self, store: str, way: Way, user: str, wish: Wish) -> Correction:
        """way: how the sentence was translated"""
        spoken = way.source_language or self._settings.source_language
        written = way.language or self._settings.language
        way = replace(way, source_language=spoken, language=written and language_code(written))

        def work(translator: Translator) -> tuple[Belongs, Corrected]:
            try:
                told = translator.hearing(spoken) if spoken else translator
                return self._library.belongs(translator, way.model), corrected(told.backbone, wish, way.language)
            except InputError as error:
                raise Refusal(422, str(error)) from None

        belongs, found = await self._engine.run(way.model, work)
        return self.kept.add(store, way.model, belongs, user, found)


@torch.inference_mode()
def corrected(backbone: Backbone, wish: Wish, language: str | None) -> Corrected:
    """The states before every token of the right text, end symbol included, as a search will meet them again.

    language: target language, for models with several
    """
    padded = np.pad(wish.samples, (0, max(0, _SHORTEST - len(wish.samples))))
    prompt = backbone.prompt(language)
    tokens = [*backbone.target.encode(wish.text), backbone.target.eos]
    if len(prompt) + len(tokens) - 1 > backbone.max_target:
        raise InputError(f"The text has {len(tokens)} tokens, more than this model can write: correct it in parts.")
    if not backbone.target.decode(tokens[:-1]).strip():
        raise InputError("The model cannot write any of this text.")
    fed = torch.tensor([[*prompt, *tokens]])
    memory = hear_batch(backbone, [features_of(backbone, padded)], fed[:, : len(prompt)])
    states = backbone.states(memory, fed[:, :-1].to(memory.states.device))[0, len(prompt) - 1 :]
    keys = states.float().cpu().numpy().astype(np.float16).astype(np.float32)
    if not np.isfinite(keys).all():
        raise InputError("The model's decoder states do not fit into 16 bits, so that nothing can be corrected.")
    heard = wish.heard or (transcripts(backbone, memory, {0: ()})[0].strip() if can_hear(backbone) else "")
    return Corrected(digest(wish.samples), heard, wish.text, language, keys, np.array(tokens, dtype=np.int32))


def digest(samples: np.ndarray) -> str:
    """Of audio, with 16 bits a sample."""
    rounded = np.clip(np.rint(samples * 32_768), -32_768, 32_767).astype("<i2")
    return hashlib.sha256(rounded.tobytes()).hexdigest()[:32]


def sentence(samples: np.ndarray, pauses: Pauses, place: int | None) -> np.ndarray:
    """One sentence of a recording, which is cut as it is for translating. place: None for a recording of one"""
    cutter = Cutter(best_detector(), pauses)
    found = [stretch.samples for stretch in (*cutter.hear(samples), *cutter.finish())]
    return found[which(place, len(found), "The recording")]


def which(place: int | None, count: int, what: str) -> int:
    """The number of a segment, checked. what: has the segments"""
    if count == 0:
        raise Refusal(422, f"{what} holds no speech.", "segment")
    if place is None and count > 1:
        raise Refusal(422, f"{what} has {count} segments: say which of them as `segment`, counted from 0.", "segment")
    if place is not None and not 0 <= place < count:
        raise Refusal(422, f"{what} has {count} segments, counted from 0.", "segment")
    return place or 0
