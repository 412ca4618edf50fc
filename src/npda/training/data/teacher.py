"""The speech path's decoder states of known translations, computed once and kept on disk."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from npda.corpus.manifest import Utterance
from npda.io.progress import bar
from npda.io.records import read_record, write_record
from npda.models.backbone import Backbone
from npda.models.inputs import hear_batch, token_rows
from npda.training.data.features import FeatureStore
from npda.training.data.speech import fingerprint, target_tokens
from npda.training.loop.batching import by_length

_DESCRIPTION, _PLAN, _DONE = "teacher.json", "plan.json", "done.json"
_LOOKED_AT = 100_000  # states that tell the variance of all


class TeacherStates:
    """States [positions, dim] float16 of every utterance, in one memory-mapped file."""

    def __init__(self, states: np.ndarray, offsets: np.ndarray) -> None:
        """states: [all positions, dim]; offsets: [utterances + 1]"""
        self._states, self._offsets = states, offsets

    def __getitem__(self, index: int) -> np.ndarray:
        """[positions, dim]: a state for every predicted token, end symbol included"""
        return self._states[self._offsets[index] : self._offsets[index + 1]]

    def variance(self) -> float:
        """Mean squared distance of the states from their mean; of many, some are looked at."""
        states = np.asarray(self._states[:: 1 + len(self._states) // _LOOKED_AT], dtype=np.float32)
        return float(np.square(states - states.mean(axis=0)).sum(axis=1, dtype=np.float64).mean())

    @staticmethod
    def make(
        directory: Path,
        utterances: Sequence[Utterance],
        backbone: Backbone,
        batch_frames: int = 20_000,
        progress: bool = True,
    ) -> None:
        """Compute the states into the directory, unless they are there; a call that was killed goes on from there."""
        description = {"utterances": fingerprint(utterances), "dim": backbone.dim}
        if read_record(directory / _DESCRIPTION) == description:
            return
        shutil.rmtree(directory, ignore_errors=True)
        work = directory.with_name(f".{directory.name}.building")
        plan = {**description, "batch_frames": batch_frames}
        if read_record(work / _PLAN) != plan:
            shutil.rmtree(work, ignore_errors=True)
            write_record(work / _PLAN, plan)
        _compute(work, utterances, backbone, batch_frames, progress)
        write_record(work / _DESCRIPTION, description)
        work.rename(directory)
        for name in (_PLAN, _DONE):
            (directory / name).unlink()

    @classmethod
    def open(cls, directory: Path) -> TeacherStates:
        states = np.load(directory / "states.npy", mmap_mode="r", allow_pickle=False)
        return cls(states, np.load(directory / "offsets.npy", allow_pickle=False))


@torch.inference_mode()
def _compute(
    directory: Path, utterances: Sequence[Utterance], backbone: Backbone, batch_frames: int, progress: bool
) -> None:
    targets = [target_tokens(u, backbone, "st") for u in utterances]
    lengths = [len(tokens) - prompt for prompt, tokens in targets]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    np.save(directory / "offsets.npy", offsets)
    path, done = directory / "states.npy", int(read_record(directory / _DONE).get("batches", 0))
    if done:
        states = np.lib.format.open_memmap(path, mode="r+")
    else:
        shape = (int(offsets[-1]), backbone.dim)
        states = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    batches = by_length([u.n_frames for u in utterances], batch_frames)
    features = FeatureStore(utterances, backbone.features, memory=0)
    with bar(progress) as display:
        task = display.add_task("computing teacher states", total=len(utterances), note="")
        display.advance(task, sum(map(len, batches[:done])))
        for number, indices in enumerate(batches[done:], done + 1):
            tokens = token_rows(backbone, [targets[i][1][:-1] for i in indices], backbone.target.pad)
            memory = hear_batch(backbone, [features[utterances[i]] for i in indices], tokens)
            for i, row in zip(indices, backbone.states(memory, tokens).float().cpu(), strict=True):
                first = targets[i][0] - 1  # the last token of the prompt predicts the first of the text
                states[offsets[i] : offsets[i + 1]] = row[first : first + lengths[i]].numpy()
            states.flush()
            write_record(directory / _DONE, {"batches": number})
            display.advance(task, len(indices))
