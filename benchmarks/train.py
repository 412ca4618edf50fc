"""Training: npda's loop against transformers' Trainer, on the same batches of the same examples.

    python -m benchmarks.train
    python -m benchmarks.train --precision bfloat16

Random features of 2 to 8 seconds with random texts, the paper's bilingual model with random weights, its dropout, its
label smoothing and its optimiser; no augmentation. Both take equally many micro-batches an update. A way is a process
of its own, and the processes take turns. The time is that of the processor from one update to the next, whatever the
loop does in between, without the first update; memory is the most the process has held until then, with all it has
imported. Evaluating and saving are in neither.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.decode import PIECES, Pieces, model
from benchmarks.harness import Line, arguments, report
from npda.training.data.speech import SpeechBatch, padded
from npda.training.loop.batching import BatchPlan
from npda.training.loop.run import Run
from npda.training.loop.settings import Precision, TrainingSettings
from npda.training.loop.train import train
from npda.training.objectives.translation import SpeechToText

EXAMPLES, FRAMES, TOKEN = 160, (200, 800), 20  # frames of an example; frames a token
BATCH_FRAMES, BATCHES = 6_000, 2  # of a micro-batch; micro-batches of an update
SPEED, MEMORY = 1.2, 1.0


class Examples:
    """Implements ``Data``: random features and texts, drawn once. asked: is told of every batch"""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        random = np.random.default_rng(0)
        self.lengths: Sequence[int] = random.integers(*FRAMES, EXAMPLES).tolist()
        self.dropped = 0
        self._asked = asked
        self._features = [torch.from_numpy(random.standard_normal((n, 80), dtype=np.float32)) for n in self.lengths]
        self._texts = [torch.from_numpy(random.integers(4, PIECES, n // TOKEN)) for n in self.lengths]

    def fingerprint(self) -> str:
        return "random"

    def batch(self, indices: Sequence[int]) -> SpeechBatch:
        self._asked()
        features, texts = ([rows[i] for i in indices] for rows in (self._features, self._texts))
        end = torch.tensor([Pieces.eos])
        return SpeechBatch(
            features=torch.nn.utils.rnn.pad_sequence(features, batch_first=True),
            lengths=torch.tensor([len(f) for f in features]),
            tokens=padded([torch.cat([end, text]) for text in texts], Pieces.pad),
            labels=padded([torch.cat([text, end]) for text in texts], Pieces.pad),
            source=torch.zeros(len(indices), 0, dtype=torch.long),
            source_lengths=torch.zeros(len(indices), dtype=torch.long),
        )


class Clock:
    """When updates begin: seconds of the processor, and the most memory until then."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.megabytes = 0.0

    def __call__(self) -> None:
        self.seconds.append(time.process_time())
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        self.megabytes = int(found[1]) / 1024 if found else 0.0


def settings(updates: int, precision: Precision) -> TrainingSettings:
    return TrainingSettings(
        batch_frames=BATCH_FRAMES, batches_per_update=BATCHES, spec_augment=None, patience=None, average=1,
        max_updates=updates, evaluate_every=updates, precision=precision,
    )  # fmt: skip


def ours(chosen: TrainingSettings, folder: Path) -> Clock:
    clock, calls = Clock(), iter(range(1_000_000))

    def asked() -> None:
        if next(calls) % BATCHES == 0:
            clock()

    data, dev = Examples(asked), Examples()
    dev.lengths = dev.lengths[:1]
    objective = SpeechToText(model(), chosen.label_smoothing)
    with Run(folder / "run", chosen, {}) as run:
        train(objective, data, dev, chosen, run, lambda path: None, progress=False, device="cpu")
    return clock


def theirs(chosen: TrainingSettings, folder: Path) -> Clock:
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration, Trainer, TrainerCallback
    from transformers.training_args import TrainingArguments

    data, clock = Examples(), Clock()
    plan = BatchPlan(data.lengths, chosen.batch_frames, chosen.batches_per_update, chosen.seed)
    batches = [batch for update in plan.epoch(0) for batch in update]

    class Begins(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            clock()

    def collated(indices: list[list[int]]) -> dict[str, torch.Tensor]:
        batch = data.batch(indices[0])
        mask = torch.arange(batch.features.shape[1]) < batch.lengths[:, None]
        return {
            "input_features": batch.features,
            "attention_mask": mask.long(),
            "decoder_input_ids": batch.tokens,
            "labels": batch.labels.masked_fill(batch.labels == Pieces.pad, -100),
        }

    config = model().model.config.to_json(torch.float32)
    network = Speech2TextForConditionalGeneration(Speech2TextConfig(**config))
    options = TrainingArguments(
        output_dir=str(folder), max_steps=chosen.max_updates or 0, per_device_train_batch_size=1,
        gradient_accumulation_steps=BATCHES, learning_rate=chosen.learning_rate, warmup_steps=chosen.warmup,
        lr_scheduler_type="inverse_sqrt", adam_beta1=chosen.betas[0], adam_beta2=chosen.betas[1],
        max_grad_norm=chosen.clip or 0.0, label_smoothing_factor=chosen.label_smoothing, optim="adamw_torch_fused",
        bf16=chosen.precision == "bfloat16", use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True,
        logging_steps=chosen.log_every, remove_unused_columns=False, dataloader_pin_memory=False,
    )  # fmt: skip
    Trainer(network, options, collated, batches, callbacks=[Begins()]).train()  # pyright: ignore[reportArgumentType]
    return clock


WAYS = {"npda": ours, "transformers": theirs}


def timed(way: str, updates: int, precision: Precision, threads: int) -> tuple[list[float], float]:
    """Seconds of every update but the first, and megabytes, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.train", "--way", way, "--updates", str(updates)]
    command += ["--precision", precision, "--threads", str(threads)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(told.splitlines()[-1])
    return found["seconds"], found["megabytes"]


def measure(updates: int, repeats: int, precision: Precision, threads: int) -> Iterator[Line]:
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    megabytes = dict.fromkeys(WAYS, 0.0)
    for _ in range(repeats):
        for way in WAYS:
            found, most = timed(way, updates, precision, threads)
            seconds[way] += found
            megabytes[way] = max(megabytes[way], most)
    ours, theirs = (statistics.median(seconds[way]) for way in ("npda", "transformers"))
    note = f"npda {ours:.2f} s an update, transformers {theirs:.2f} s, {precision}"
    yield Line("train: updates/s over transformers' Trainer", theirs / ours, SPEED, note=note)
    note = f"npda {megabytes['npda']:.0f} MB, transformers {megabytes['transformers']:.0f} MB"
    value = megabytes["npda"] / megabytes["transformers"]
    yield Line("train: peak memory over that of transformers' Trainer", value, MEMORY, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--updates", type=int, default=4, help="of every process")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--way", choices=list(WAYS), help="run it in this process and tell its figures")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.way is None:
        chosen = options.updates, options.repeats, options.precision, options.threads
        return report("train", partial(measure, *chosen), options.json)
    with TemporaryDirectory() as folder:
        clock = WAYS[options.way](settings(options.updates, options.precision), Path(folder))
    seconds = np.diff(clock.seconds[: options.updates])[1:].tolist()
    print(json.dumps({"seconds": seconds, "megabytes": clock.megabytes}))
    return True


if __name__ == "__main__":
    sys.exit(not main())
