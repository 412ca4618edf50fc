"""What a public model needs to be trained further: the language to write, a shorter silence, its own objective.

Whisper writes English, or what is said. Trained further it learns to write another language of its vocabulary, from
speech it may never have heard of. Its decoder goes on writing transcripts too: see
``npda.training.objectives.transcript_loss``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npda.audio import SpecAugment
from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.models.backbone import Tokens
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.transcript_loss import TranscribingSpeechToText
from npda.training.objectives.translation import SpeechToText
from npda.training.tasks.tuned_parameters import freeze

if TYPE_CHECKING:
    from npda.models.whisper import Whisper
    from npda.training.tasks.speech import SpeechModel


def prepare(
    backbone: Whisper, model: SpeechModel, settings: TrainingSettings, utterances: Sequence[Utterance]
) -> Tokens | None:
    """Tell it what to write, freeze what is not tuned. → the vocabulary of transcripts, if there is a loss on them"""
    if model.tunes == "adapters" or model.l0_weight > 0:
        raise InputError("Adapters and gates are for models of npda train; tune all, decoder or lna-d of a public one.")
    if settings.ctc_weight > 0:
        raise InputError("A Whisper model learns transcripts by writing them: use transcript_weight, not ctc_weight.")
    languages = model.languages or sorted({u.tgt_lang for u in utterances if u.tgt_lang})
    if len(languages) > 1:
        raise InputError(f"A Whisper model learns to write one language at a time, not {', '.join(languages)}.")
    if model.task == "st" and languages:
        backbone.learn_language(languages[0])
    if model.silence is not None:
        backbone.learn_silence(model.silence)
    if model.dropout is not None:
        backbone.set_dropout(model.dropout)
    backbone.prompt(backbone.source_language)  # refuses a model that was not told what is spoken
    freeze(backbone, model.tunes)
    return backbone.source if model.transcript_weight > 0 else None


def objective(
    backbone: Whisper, model: SpeechModel, settings: TrainingSettings, augment: SpecAugment | None
) -> SpeechToText:
    """Speech to text, and to transcripts if they are wanted.

    The soft-max is over all tokens: left out, those that the data never ask for would take most of the probability.
    """
    if model.transcript_weight == 0:
        return SpeechToText(backbone, settings.label_smoothing, spec_augment=augment)
    prompt = backbone.prompt(backbone.source_language)
    return TranscribingSpeechToText(backbone, prompt, model.transcript_weight, settings.label_smoothing, augment)
