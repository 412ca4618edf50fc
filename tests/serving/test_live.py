"""Captions without a socket, a clock or a model: speech is numbers, and the model reads them."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbers_spoken import SECOND, SILENCE, Reader, Scripted, Spoken, decode, speech

from npda.segmentation import Pauses
from npda.segmentation.detectors import FRAME, Loudness
from npda.serving.captions.live import Captions, Event, Final, Pace, Partial
from npda.serving.errors import Refusal


def listen(
    reader: Reader, samples: np.ndarray, block: int = 1600, pace: Pace = Pace(), pauses: Pauses = Pauses()
) -> list[Event]:
    """Everything that is told while samples arrive as they are spoken."""

    async def run() -> list[Event]:
        captions = Captions(reader, decode, Scripted(), pauses, pace, clock=reader.clock, sleep=reader.sleep)
        events = []
        for place in range(0, len(samples), block):
            reader.now = max(reader.now, place / 16_000)
            captions.hear(samples[place : place + block])
            while (work := captions.due()) is not None:
                events += await captions.translate(work)
        captions.finish()
        while (work := captions.due()) is not None:
            events += await captions.translate(work)
        assert captions.backlog == 0
        return events

    return asyncio.run(run())


def check(events: list[Event]) -> None:
    """What holds whatever is said and however well it is understood."""
    finals = [event for event in events if isinstance(event, Final)]
    assert [final.segment for final in finals] == list(range(len(finals)))
    for final in finals:
        assert 0 <= final.start < final.end
    for one, other in pairwise(finals):
        assert one.end <= other.start
    of_final = {final.segment: final for final in finals}
    stable: dict[int, str] = {}
    done = -1
    for event in events:
        assert event.segment == done + 1  # segments come one after the other
        if isinstance(event, Final):
            done = event.segment
            assert event.text.startswith(stable.get(done, ""))
        else:
            assert event.stable.startswith(stable.get(event.segment, ""))
            assert event.start == of_final[event.segment].start
            stable[event.segment] = event.stable
    # Whoever appends what is new to the stable text, and what is left at the end, has the finals.
    for segment, final in of_final.items():
        written = ""
        for event in events:
            if isinstance(event, Partial) and event.segment == segment:
                written += event.stable[len(written) :]
        assert written + final.text[len(written) :] == final.text


def finals(events: list[Event]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


SENTENCES = speech((0, 10), (1, 20), (2, 20), (3, 20), (4, 20), (0, 30), (5, 20), (6, 20), (0, 40))


def test_sentences_become_stable_word_by_word_and_final_at_their_pauses():
    reader = Reader()
    events = listen(reader, SENTENCES)
    check(events)
    assert [final.text for final in finals(events)] == ["w1 w2 w3 w4", "w5 w6"]
    first, second = finals(events)
    assert (first.start, first.end) == (10 / SECOND, 90 / SECOND)
    assert (second.start, second.end) == (120 / SECOND, 160 / SECOND)
    assert first.stores == {"parliament": 0.5}
    stable = [event.stable for event in events if isinstance(event, Partial) and event.segment == 0]
    assert stable[0] == ""
    assert stable[-1] == "w1 w2 w3"
    assert reader.most_in_flight == 1


def test_the_pass_over_a_pause_that_goes_on_is_the_final_one():
    reader = Reader()
    listen(reader, SENTENCES)
    # Of each sentence the last pass that was made heard all of it; no further one was needed for its final text.
    whole = [begins for begins in reader.calls if begins == ()]
    assert len(whole) < len(reader.calls)
    silent = Reader()
    cut = SENTENCES[: 110 * FRAME]  # the pause after the first sentence, 20 frames long
    assert [final.text for final in finals(listen(silent, cut))] == ["w1 w2 w3 w4"]
    before = Reader()
    listen(before, SENTENCES[: 101 * FRAME])
    assert len(silent.calls) == len(before.calls)


def test_silence_and_clicks_give_nothing():
    reader = Reader()
    assert listen(reader, speech((0, 200))) == []
    assert listen(reader, speech((0, 50), (7, 2), (0, 50))) == []
    assert reader.calls == []


@pytest.mark.parametrize("loudness", [0.0, 1e-4, 0.02])
def test_noise_is_never_translated(loudness: float):
    noise = np.random.default_rng(0).normal(scale=loudness, size=160_000).astype(np.float32)

    async def run() -> int:
        captions = Captions(Reader(), decode, Loudness())
        for place in range(0, len(noise), 1600):
            captions.hear(noise[place : place + 1600])
        captions.finish()
        return 0 if captions.due() is None else 1

    assert asyncio.run(run()) == 0


def test_what_is_not_understood_gives_nothing():
    class Deaf(Reader):
        async def __call__(self, samples, begins):
            return Spoken("")

    assert listen(Deaf(), SENTENCES) == []


def test_a_text_that_vanishes_is_made_final_as_empty():
    """Or it would stand on the page for ever."""

    class Doubting(Reader):
        async def __call__(self, samples, begins):
            return Spoken("hm") if samples[-1] != SILENCE else Spoken("")

    events = listen(Doubting(), SENTENCES)
    check(events)
    assert [final.text for final in finals(events)] == ["", ""]


def test_the_final_pass_is_free_first_and_then_begins_with_what_is_stable():
    class Changing(Reader):
        async def __call__(self, samples, begins):
            found = await super().__call__(samples, begins)
            if begins or samples[-1] != SILENCE:
                return found
            tokens = (8, *found.tokens[1:])
            return Spoken(decode(tokens), tokens)

    reader = Changing()
    events = listen(reader, SENTENCES[: 119 * FRAME])
    check(events)
    assert finals(events)[0].text == "w1 w2 w3 w4"
    assert reader.calls[-2] == ()
    assert reader.calls[-1][0] == 1


def test_a_model_that_does_not_begin_as_told_cannot_take_back_what_is_stable():
    class Stubborn(Reader):
        async def __call__(self, samples, begins):
            found = await super().__call__(samples, begins)
            return found if samples[-1] != SILENCE else Spoken("x y z u v")

    events = listen(Stubborn(), SENTENCES[: 130 * FRAME])
    check(events)
    stable = [event.stable for event in events if isinstance(event, Partial)][-1].split()
    assert finals(events)[0].text.split() == [*stable, *["x", "y", "z", "u", "v"][len(stable) :]]


def test_passes_come_the_more_rarely_the_longer_they_take():
    long = speech(*((number, 10) for number in range(1, 60)), (0, 30))
    quick, slow = Reader(took=0.05), Reader(took=1.0)
    check(listen(quick, long))
    check(listen(slow, long))
    seconds = 590 / SECOND
    assert len(quick.calls) >= seconds / 0.6 * 0.8
    assert 4 <= len(slow.calls) <= seconds / 1.5 + 2


def test_partial_passes_wait_while_the_machine_is_busy_and_finals_do_not():
    async def run() -> tuple[list[Event], int]:
        reader = Reader()
        captions, events = Captions(reader, decode, Scripted(), clock=reader.clock), []
        for place in range(0, len(SENTENCES), 1600):
            captions.hear(SENTENCES[place : place + 1600])
            while (work := captions.due(busy=True)) is not None:
                events += await captions.translate(work)
        return events, len(reader.calls)

    events, calls = asyncio.run(run())
    assert [type(event) for event in events] == [Final, Final]
    assert calls == 2


def test_a_refused_partial_pass_is_left_out_and_a_refused_final_one_tried_again():
    refused = Reader(refused=dict.fromkeys(range(1, 40), 503))
    events = listen(refused, SENTENCES)
    check(events)
    assert [final.text for final in finals(events)] == ["w1 w2 w3 w4", "w5 w6"]
    assert not [event for event in events if isinstance(event, Partial) and event.segment == 0]
    with pytest.raises(Refusal, match="Too much"):
        listen(Reader(refused=dict.fromkeys(range(1, 10_000), 503)), SENTENCES)
    with pytest.raises(Refusal, match="Too much"):
        listen(Reader(refused={1: 404}), SENTENCES)


def test_a_machine_that_is_too_slow_lets_speech_wait_and_loses_none():
    reader = Reader(took=30.0)
    events = listen(reader, np.tile(SENTENCES, 5))
    check(events)
    assert [final.text for final in finals(events)] == ["w1 w2 w3 w4", "w5 w6"] * 5


def test_the_backlog_counts_speech_that_waits():
    captions = Captions(Reader(), decode, Scripted())
    captions.hear(SENTENCES)
    assert captions.backlog == pytest.approx(120 / SECOND)
    assert captions.seconds == pytest.approx(len(SENTENCES) / 16_000)


def test_only_one_pass_is_in_flight():
    async def run() -> None:
        captions = Captions(Reader(), decode, Scripted())
        captions.hear(SENTENCES)
        work = captions.due()
        assert work is not None
        task = asyncio.create_task(captions.translate(work))
        await asyncio.sleep(0)
        assert captions.due() is None
        with pytest.raises(RuntimeError, match="in flight"):
            await captions.translate(work)
        assert await task

    asyncio.run(run())


def test_speech_without_a_pause_is_cut_where_nothing_was_stable_yet():
    """Every word is heard once: none of the stable ones was said behind the cut."""
    pauses = Pauses(longest=6.0)
    numbers = [(number, 9 + number % 3) for number in range(1, 80)]
    words = [part for number in numbers for part in (number, (0, 2))]
    events = listen(Reader(wrong=0), speech(*words, (0, 40)), pauses=pauses)
    check(events)
    assert len(finals(events)) > 3
    assert " ".join(final.text for final in finals(events)).split() == [f"w{number}" for number, _ in numbers]


@given(st.data())
def test_whatever_is_said_stable_text_stays_and_every_word_is_in_the_finals_once(data):
    script, number = [], 0
    for _ in range(data.draw(st.integers(1, 25))):
        if data.draw(st.integers(0, 3)) == 0:
            script.append((0, data.draw(st.integers(1, 50))))
        else:
            number += 1
            script.append((number, data.draw(st.integers(4, 25))))
    reader = Reader(
        took=data.draw(st.sampled_from([0.0, 0.05, 0.7, 3.0])),
        wrong=data.draw(st.integers(0, 3)),
        refused=dict.fromkeys(data.draw(st.sets(st.integers(1, 12))), 503),
    )
    samples = np.concatenate([speech(*script), np.zeros(data.draw(st.integers(0, 20_000)), np.float32)])
    pace = Pace(least=data.draw(st.sampled_from([0.1, 0.5, 1.0])), held=data.draw(st.integers(reader.wrong, 4)))
    events = listen(reader, samples, data.draw(st.sampled_from([160, 1600, 5000, 50_000])), pace)
    check(events)
    assert reader.most_in_flight <= 1
    if samples[-1] == SILENCE:  # of what is cut off in the middle of a word, the last words are misread
        spoken = [n for n, _ in script if n]
        assert " ".join(final.text for final in finals(events)).split() == [f"w{n}" for n in spoken]


@given(st.data())
def test_stable_text_stays_even_if_every_pass_hears_something_else(data):
    class Random(Reader):
        async def __call__(self, samples, begins):
            await super().__call__(samples, ())
            tokens = tuple(data.draw(st.lists(st.integers(1, 2), max_size=6)))
            if data.draw(st.booleans()):
                tokens = (*begins, *tokens)
            return Spoken(decode(tokens), tokens)

    check(listen(Random(), SENTENCES, pace=Pace(least=0.2, held=data.draw(st.integers(0, 1)))))


def test_what_is_final_is_kept_with_its_samples():
    kept = []

    def keep(final: Final, samples: np.ndarray) -> str:
        kept.append((final, samples))
        return f"id-{final.segment}"

    async def run() -> list[Event]:
        captions = Captions(Reader(), decode, Scripted(), keep=keep)
        captions.hear(SENTENCES)
        events = []
        while (work := captions.due()) is not None:
            events += await captions.translate(work)
        return events

    events = asyncio.run(run())
    assert [event.message()["request_id"] for event in events] == ["id-0", "id-1"]
    assert [final.text for final, _ in kept] == ["w1 w2 w3 w4", "w5 w6"]
    assert all(len(samples) / 16_000 >= final.end - final.start for final, samples in kept)
    assert "request_id" not in Final(0, "text", 0.0, 1.0).message()
