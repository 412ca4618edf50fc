"""A model that is lent for long work gives what it gives anyway, and computes only when it is its turn."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import torch
from tiny_store import backbone, pairs

from npda.decoding.beam import SearchOptions, search
from npda.models.inputs import read_batch
from npda.serving.engine.lending import beside, slices
from npda.serving.engine.machine import Machine, Work


def test_what_is_computed_beside_is_the_same():
    model, turns = backbone(), []

    def turn(do: Any) -> Any:
        turns.append(1)
        return do()

    other = beside(model, turn)
    assert other.source is not None
    sources = [other.source.encode(pair.src_text) for pair in pairs(5)]
    options = SearchOptions(beam=3, max_length=12)
    with torch.inference_mode():
        ours, theirs = (search(one, read_batch(one, sources), one.prompt(), options) for one in (other, model))
        assert ours == theirs
        steps = len(turns)
        assert 2 + 2 <= steps <= 2 + 2 * options.max_length  # read, start; then a step and its logits
        tokens = torch.tensor([[2, 5, 6], [2, 7, 8]])
        memory = read_batch(model, sources[:2])
        torch.testing.assert_close(other.states(memory, tokens), model.states(memory, tokens))
    assert len(turns) == steps + 1
    assert other.decoder_digest() == model.decoder_digest()
    assert "read" not in vars(model)  # the model itself is as it was


def test_slices_wait_for_their_turn_among_other_work():
    """The machine does everything in one thread, one after the other."""
    seen: list[tuple[str, int]] = []

    def do(what: str) -> str:
        seen.append((what, threading.get_ident()))
        return what

    async def work() -> None:
        machine = Machine(4)
        turn = slices(machine)

        def long() -> list[str]:
            return [turn(lambda: do("slice")) for _ in range(5)]

        others = [machine.compute(Work(object(), None, 0, 0.0, do=lambda: do("request"))) for _ in range(5)]
        found = await asyncio.gather(asyncio.to_thread(long), *others)
        assert found == [["slice"] * 5, *["request"] * 5]

        def fails() -> None:
            raise KeyError

        def caught() -> str:
            try:
                turn(fails)
            except KeyError:
                return "caught"
            return ""

        assert await asyncio.to_thread(caught) == "caught"
        await machine.stop(RuntimeError("the end"))

    asyncio.run(work())
    assert len({thread for _, thread in seen}) == 1
    assert threading.get_ident() not in {thread for _, thread in seen}
