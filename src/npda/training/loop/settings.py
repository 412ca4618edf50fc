"""How to train, and which of it may change when a run goes on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from npda.io import limits
from npda.io.errors import InputError

Schedule = Literal["inverse-sqrt", "cosine", "constant"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class TrainingSettings:
    """The defaults are the paper's."""

    seed: int = 1  # of the weights, the order of the data and the dropout
    batch_frames: int = 20_000  # frames of a micro-batch, padding included (tokens, where the data are text)
    batches_per_update: int = 4  # micro-batches of one update, shared among all processes
    max_frames: int = 3_000  # longer utterances are left out of the training data
    learning_rate: float = 2e-3  # at its peak, the end of the warm-up
    warmup: int = 10_000  # updates over which the learning rate rises from 0
    schedule: Schedule = "inverse-sqrt"  # of the learning rate after the warm-up
    betas: tuple[float, float] = (0.9, 0.98)  # decay of Adam's moments
    weight_decay: float = 0.0  # of matrices; biases and norms never decay
    clip: float | None = 10.0  # largest norm of the gradient
    label_smoothing: float = 0.1  # probability mass spread over the vocabulary
    ctc_weight: float = 0.0  # of the transcript's CTC loss on the encoder; 0 needs no transcripts
    spec_augment: str | None = "lb"  # preset of the feature masking, or none
    max_epochs: int | None = None  # end after so many passes over the data
    max_updates: int | None = None  # end after so many updates
    patience: int | None = 5  # end after so many evaluations without a better dev loss
    evaluate_every: int | None = None  # updates between evaluations; none means after every epoch
    save_every: int = 1_000  # updates between checkpoints; each evaluation writes one too
    log_every: int = 50  # updates between lines of the log
    average: int = 10  # checkpoints, best by dev loss, averaged at the end
    precision: Precision = "float32"  # of products in training; bfloat16 only where the device is made for it
    workers: int = 0  # processes that load and compute features beside each training process

    def __post_init__(self) -> None:
        positive = (
            "batch_frames",
            "batches_per_update",
            "max_frames",
            "learning_rate",
            "save_every",
            "log_every",
        )
        optional = ("clip", "max_epochs", "max_updates", "patience", "evaluate_every")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and value not in limits.ANY:
                raise InputError(f"{field.name} must be {limits.ANY}, not {value}.")
        for name in (*positive, "average", *optional):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"{name} must be above 0, not {value}.")
        for name in ("seed", "warmup", "weight_decay", "ctc_weight", "workers"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must not be negative, but it is {getattr(self, name)}.")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"label_smoothing must lie in [0, 1), not {self.label_smoothing}.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(f"betas must be two numbers in [0, 1), not {self.betas}.")
        if self.spec_augment is not None:
            _check_choice("spec_augment", self.spec_augment, ("lb", "ld", "sm", "ss"))
        _check_choice("schedule", self.schedule, ("inverse-sqrt", "cosine", "constant"))
        _check_choice("precision", self.precision, ("float32", "bfloat16"))
        if self.schedule == "cosine" and self.max_epochs is None and self.max_updates is None:
            raise InputError("The cosine schedule must know where it ends: give max_epochs or max_updates.")
        if self.max_epochs is None and self.max_updates is None and self.patience is None:
            raise InputError("Training would never end: give max_epochs, max_updates or patience.")

    def changeable(self) -> frozenset[str]:
        """Names of the settings that may differ when a run is continued."""
        free = {"patience", "workers", "log_every", "save_every"}
        # The cosine depends on where it ends: another end would have given other weights from the start.
        return frozenset(free if self.schedule == "cosine" else free | {"max_epochs", "max_updates"})


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")


# Learns the embedded corpus in minutes on two cores: small batches and CTC make small data converge.
MINI = TrainingSettings(
    batch_frames=3_000,
    batches_per_update=1,
    warmup=150,
    schedule="cosine",
    weight_decay=0.01,
    clip=3.0,
    ctc_weight=1.0,
    spec_augment=None,
    max_epochs=6,
    patience=None,
    save_every=200,
    average=1,
)

# The text path of the embedded corpus: a batch is counted in tokens of both sides.
ALIGN_MINI = replace(MINI, batch_frames=1_000, ctc_weight=0.0, max_epochs=8)

# The text path of a large pre-trained model, with its copy task: a quarter of an hour to an hour on two cores.
ALIGN_PRETRAINED = TrainingSettings(
    batch_frames=550,
    batches_per_update=1,
    learning_rate=6e-4,
    warmup=100,
    schedule="cosine",
    clip=1.0,
    label_smoothing=0.0,
    spec_augment=None,
    max_epochs=9,
    patience=None,
    save_every=100,
    log_every=10,
    average=1,
    precision="bfloat16",
)

# A large pre-trained model, trained further on a few hours of speech.
FINE_TUNE = replace(
    ALIGN_PRETRAINED,
    batch_frames=3_000,
    learning_rate=1e-4,
    warmup=50,
    weight_decay=0.01,
    label_smoothing=0.1,
    spec_augment="sm",
    max_epochs=3,
)

# Translators of text and language models of the embedded corpus; a language model counts one side only.
TEXT_MINI = replace(MINI, batch_frames=1_000, ctc_weight=0.0, max_epochs=6)
LANGUAGE_MODEL_MINI = replace(MINI, batch_frames=500, ctc_weight=0.0, max_epochs=6)
