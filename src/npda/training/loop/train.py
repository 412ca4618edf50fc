"""The training loop: objective and data come from outside, everything about updates is here.

A run is a function of its settings, its data and the initial weights. The order of the data follows from the
seed and the epoch, everything random in a micro-batch from the seed and its place; so an interrupted run goes
on as if nothing had happened, and the number of processes changes nothing but the time.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.state import PartialState
from torch.autograd.graph import increment_version
from torch.utils.data import DataLoader

from npda.io.errors import InputError
from npda.io.progress import Display, bar, stage
from npda.models.devices import device_of
from npda.training.data.speech import Data, Share
from npda.training.loop.batching import BatchPlan, UpdatePlan, derived_seed
from npda.training.loop.checkpoints import State, restore, trainable
from npda.training.loop.gradients import Gradients
from npda.training.loop.log import Window
from npda.training.loop.measure import means
from npda.training.loop.processes import add_up, autocast, running, training_device
from npda.training.loop.run import Run
from npda.training.loop.schedule import learning_rate
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.translation import Objective

logger = logging.getLogger(__name__)

# Update → more figures for the log, such as BLEU on the dev data; called in the main process.
OnEvaluate = Callable[[int], Mapping[str, float]]


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended: ``dev`` is what the published weights reach on the dev data."""

    directory: Path
    updates: int
    epochs: int
    dev: dict[str, float]
    averaged: tuple[int, ...]  # updates whose weights were averaged; a single one was better alone
    seconds: float


def train(
    objective: Objective,
    data: Data,
    dev: Data,
    settings: TrainingSettings,
    run: Run,
    publish: Callable[[Path], None],
    on_evaluate: OnEvaluate | None = None,
    progress: bool = True,
    plan: UpdatePlan | None = None,
    device: str | torch.device = "auto",
) -> TrainingSummary:
    """Train from the beginning or from the run's last checkpoint, then publish the best weights.

    publish: writes the model, with the weights the objective has by then, into a directory
    plan: what makes an update; by default examples of similar length, in the order of the seed
    device: see ``npda.models.devices``; of several processes each has its own
    """
    processes = running()
    if settings.batches_per_update % processes.num_processes:
        raise InputError(
            f"batches_per_update is {settings.batches_per_update}, which {processes.num_processes} processes "
            "cannot share evenly; choose a multiple of the number of processes."
        )
    objective.to(training_device(processes, device))
    plan = plan or BatchPlan(data.lengths, settings.batch_frames, settings.batches_per_update, settings.seed)
    trainer = _Trainer(objective, data, dev, settings, plan, run, processes, on_evaluate)
    trainer.resume()
    with bar(progress and processes.is_main_process) as display:
        trainer.train(display)
    with stage("averaging the best checkpoints", progress and processes.is_main_process):
        return trainer.finish(publish)


class _Trainer:
    def __init__(
        self,
        objective: Objective,
        data: Data,
        dev: Data,
        settings: TrainingSettings,
        plan: UpdatePlan,
        run: Run,
        processes: PartialState,
        on_evaluate: OnEvaluate | None,
    ) -> None:
        self.objective, self.data, self.dev, self.settings, self.run = objective, data, dev, settings, run
        self.plan = plan
        self.processes, self.on_evaluate = processes, on_evaluate
        self.device = device_of(objective)
        self.state = State()
        self.total = self._total_updates()
        parameters = trainable(objective).values()
        self.gradients = Gradients(parameters)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
                {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
            ],
            betas=settings.betas,
            fused=self.device.type in ("cpu", "cuda"),
        )
        self.window = Window(objective.terms)

    def resume(self) -> None:
        """Begin from the newest checkpoint, if there is one."""
        latest = self.run.checkpoints.latest()
        if latest is not None:
            self.state = self.run.checkpoints.load(latest, self.objective, self.optimizer)
        if self.processes.num_processes > 1:
            for parameter in self.objective.parameters():
                torch.distributed.broadcast(parameter.detach(), src=0)
        if self.processes.is_main_process:
            self.run.log.cut(self.state.update)
            if latest is None:
                self._report_data()
            self.run.checkpoints.tidy(latest, self.state)
        self.processes.wait_for_everyone()

    def train(self, display: Display) -> None:
        state = self.state
        task = display.add_task("training", total=self.total, completed=state.update, note="")
        while not self._is_over():
            updates = self.plan.epoch(state.epoch)
            for batches in self._load(updates[state.position :]):
                epoch = state.epoch + 1
                frames = sum(self.data.lengths[i] for batch in updates[state.position] for i in batch)
                self._update(batches, frames)
                if state.position == len(updates):
                    state.epoch, state.position = epoch, 0
                self._record(epoch)
                display.update(task, completed=state.update, note=self._note(epoch))
                if self._is_over():
                    break
        if not state.best:
            self._evaluate(state.epoch)

    def _report_data(self) -> None:
        for name, data in (("training", self.data), ("dev", self.dev)):
            if data.dropped:
                logger.warning("%d %s utterances are left out: too long.", data.dropped, name)
            self.run.log.write("data", update=0, part=name, examples=len(data.lengths), dropped=data.dropped)

    def _record(self, epoch: int) -> None:
        """Log, evaluate and save, as far as it is time to."""
        settings, state = self.settings, self.state
        if settings.evaluate_every is None:
            evaluate = state.position == 0
        else:
            evaluate = state.update % settings.evaluate_every == 0
        evaluate = evaluate or self._is_over()
        save = evaluate or state.update % settings.save_every == 0
        # What a line sums up never reaches over a checkpoint: a run that goes on from there logs the same.
        if save or state.update % settings.log_every == 0:
            self._log(epoch)
        if evaluate:
            self._evaluate(epoch)
        if save and self.processes.is_main_process:
            self.run.checkpoints.save(state, self.objective, self.optimizer)

    def finish(self, publish: Callable[[Path], None]) -> TrainingSummary:
        """Publish the average of the best checkpoints, or the very best if that is better on the dev data."""
        state, checkpoints = self.state, self.run.checkpoints
        self.processes.wait_for_everyone()
        averaged = tuple(sorted(update for _, update in state.best))
        restore(self.objective, checkpoints.average(averaged))
        dev = self._dev_means()
        if len(averaged) > 1 and not self.objective.selection(dev) < state.best[0][0]:
            averaged = (state.best[0][1],)
            restore(self.objective, checkpoints.average(averaged))
            dev = self._dev_means()
        if self.processes.is_main_process:
            self.run.publish(publish, len(self.data.lengths), dev)
            self.run.log.write("end", update=state.update, averaged=averaged, **dev)
        self.processes.wait_for_everyone()
        return TrainingSummary(self.run.out, state.update, state.epoch, dev, averaged, state.seconds)

    def _load(self, updates: Sequence[Sequence[Sequence[int]]]) -> Iterator[list[tuple[int, Any]]]:
        """For each update, this process's micro-batches and their places in the update."""
        share = Share(updates, self.data, self.processes.process_index, self.processes.num_processes)
        workers = self.settings.workers
        # Forked workers share the features that are kept in memory.
        context = "fork" if workers else None
        yield from DataLoader(
            share,
            batch_size=None,
            collate_fn=Share.as_is,
            num_workers=workers,
            multiprocessing_context=context,
        )

    def _update(self, batches: list[tuple[int, Any]], frames: int) -> None:
        settings, state, started = self.settings, self.state, time.perf_counter()
        state.update += 1
        state.position += 1
        counts = self._counts([batch for _, batch in batches])
        self.objective.train()
        self.gradients.clear()
        for place, batch in batches:
            torch.manual_seed(derived_seed(settings.seed, state.update, place))
            with autocast(self.device, settings.precision):
                sums = self.objective(batch.to(self.device))
            weights = self.objective.weights
            terms = [weights[name] / max(counts[name], 1) * sums[name] for name in weights if name in sums]
            torch.stack(terms).sum().backward()
            self.window.add(sums)
        add_up(self.gradients.flat, self.processes)
        norm = float(self.gradients.clip(settings.clip))
        if not math.isfinite(norm):
            raise InputError(
                f"Training diverged: the gradient of update {state.update} is not finite. "
                "Begin again with a lower learning_rate or a longer warmup."
            )
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(settings, state.update, self.total)
        self.optimizer.step()
        # Fused, it does not count its writes, by which packed weights are told from stale ones.
        increment_version(trainable(self.objective).values())
        seconds = time.perf_counter() - started
        state.seconds += seconds
        self.window.count(counts, norm, frames, seconds)

    def _counts(self, batches: list[Any]) -> dict[str, float]:
        """What the terms of this update are divided by: counted over all micro-batches of all processes."""
        totals = dict.fromkeys(self.objective.terms, 0)
        for batch in batches:
            for name, count in self.objective.counts(batch).items():
                totals[name] += count
        shared = add_up(torch.tensor(list(totals.values()), dtype=torch.float64), self.processes).tolist()
        return dict(zip(totals, shared, strict=True))

    def _evaluate(self, epoch: int) -> None:
        """Measure on the dev data and keep the weights if they are among the best."""
        state, checkpoints = self.state, self.run.checkpoints
        started = time.perf_counter()
        dev = self._dev_means()
        loss = self.objective.selection(dev)
        if not math.isfinite(loss):
            raise InputError(f"Training diverged: the dev loss after update {state.update} is {loss}.")
        state.stale = 0 if not state.best or loss < state.best[0][0] else state.stale + 1
        state.best = sorted([*state.best, (loss, state.update)])[: self.settings.average]
        if self.processes.is_main_process:
            more = self.on_evaluate(state.update) if self.on_evaluate is not None else {}
            state.seconds += time.perf_counter() - started
            if (loss, state.update) in state.best:
                checkpoints.keep(state.update, self.objective)
            self.run.log.write("dev", update=state.update, epoch=epoch, **dev, **more, seconds=round(state.seconds, 2))

    def _dev_means(self) -> dict[str, float]:
        return means(self.objective, self.dev, self.settings.batch_frames, self.processes)

    def _log(self, epoch: int) -> None:
        figures = self.window.close(self.processes, self.objective.weights)
        if self.processes.is_main_process:
            rate = learning_rate(self.settings, self.state.update, self.total)
            seconds = round(self.state.seconds, 2)
            self.run.log.write("train", update=self.state.update, epoch=epoch, lr=rate, **figures, seconds=seconds)

    def _is_over(self) -> bool:
        settings, state = self.settings, self.state
        limits = ((settings.max_updates, state.update), (settings.max_epochs, state.epoch))
        if any(limit is not None and done >= limit for limit, done in limits):
            return True
        return settings.patience is not None and state.stale >= settings.patience

    def _total_updates(self) -> int | None:
        """Updates of the whole run, unless only patience ends it."""
        settings = self.settings
        limits = [settings.max_updates] if settings.max_updates is not None else []
        if settings.max_epochs is not None and settings.schedule == "cosine":
            limits.append(sum(len(self.plan.epoch(epoch)) for epoch in range(settings.max_epochs)))
        elif settings.max_epochs is not None:
            limits.append(len(self.plan.epoch(0)) * settings.max_epochs)  # good enough for the ETA
        return min(limits, default=None)

    def _note(self, epoch: int) -> str:
        best = f", dev {self.state.best[0][0]:.3f}" if self.state.best else ""
        return f"epoch {epoch}, loss {self.window.latest:.3f}{best}"
