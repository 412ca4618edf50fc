"""The engine against a Translator that does one after the other."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_whisper
from shelf import Shelf

from npda import audio
from npda.corpus.mini.grammar import sentences
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.steering import Chosen
from npda.demo.model import SHIPPED
from npda.explanation.explain import explain, hear
from npda.segmentation import Pauses
from npda.serving.engine.asks import Engine, Way
from npda.serving.engine.engine import BatchingEngine
from npda.serving.engine.watch import Watch
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.translation import Translation
from npda.translator import Translator

CLIPS = Path(__file__).parents[1] / "fixtures" / "version-0.1.0" / "clips"
MODEL = "mini"
PLAIN = Way(MODEL, stores=())
PATIENCE = 240.0  # seconds after which something hangs


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.from_pretrained(SHIPPED)


@pytest.fixture(scope="module")
def stores(translator, tmp_path_factory) -> dict[str, Datastore]:
    folder = tmp_path_factory.mktemp("stores")
    texts = {
        "parliament": sentences("parliament", "train")[:300],
        "talk": sentences("general", "train")[:200],
        "counter": sentences("general", "train")[200:500],
    }
    return {name: Datastore.build(translator, pairs, folder / name) for name, pairs in texts.items()}


@pytest.fixture
def shelf(stores) -> Shelf:
    return Shelf({name: stores[name] for name in ("parliament", "talk")}, stores["counter"])


@pytest.fixture(scope="module")
def waves() -> list[np.ndarray]:
    """Eight utterances of different lengths."""
    found = [audio.load(str(path)) for path in sorted(CLIPS.iterdir())]
    return [
        *found,
        *(wave[: round(share * len(wave))] for wave, share in zip(found, (0.5, 0.6, 0.7, 0.8), strict=True)),
    ]


@dataclass
class Seen:
    """What a watch has seen."""

    batches: list[int] = field(default_factory=list)
    searches: list[int] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    @property
    def watch(self) -> Watch:
        return Watch(lambda phase, seconds: self.phases.append(phase), self.batches.append, self.searches.append)


def settings(**changes: Any) -> Settings:
    return Settings(**{"models": {MODEL: SHIPPED}, "data": Path("nowhere"), "device": "cpu", **changes})


@asynccontextmanager
async def serving(
    library: Shelf | None = None, seen: Seen | None = None, **changes: Any
) -> AsyncIterator[BatchingEngine]:
    engine = BatchingEngine(settings(**changes), library, (seen or Seen()).watch, threads=1)
    try:
        yield engine
    finally:
        await engine.close()


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), PATIENCE))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@asynccontextmanager
async def busy(engine: BatchingEngine, model: str = MODEL) -> AsyncIterator[None]:
    """The machine does something else as long as this lasts."""
    begun, go_on = threading.Event(), threading.Event()

    def work(translator: Translator) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    other = asyncio.create_task(engine.run(model, work))
    await until(begun.is_set)
    try:
        yield
    finally:
        go_on.set()
        await other


@contextmanager
def refused(status: int, words: str) -> Iterator[Any]:
    with pytest.raises(Refusal, match=words) as caught:
        yield caught
    assert caught.value.status == status


def assert_alike(ours: Translation, theirs: Translation) -> None:
    assert (ours.text, ours.tokens, ours.retried) == (theirs.text, theirs.tokens, theirs.retried)
    assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert dict(ours.stores) == pytest.approx(dict(theirs.stores), abs=1e-3)
    assert ours.duration == theirs.duration


WAYS = [
    PLAIN,
    Way(MODEL, stores=("parliament",)),
    Way(MODEL, stores=("talk",)),
    Way(MODEL),
    Way(MODEL, stores=("parliament",), chosen=Chosen(k=2, lambda_=0.9, temperature=5.0)),
    Way(MODEL, stores=("parliament",)),
    PLAIN,
    Way(MODEL, stores=("talk", "parliament")),
]


def one_by_one(translator: Translator, shelf: Shelf, wave: np.ndarray, way: Way) -> Translation:
    names = tuple(shelf.stores) if way.stores == "auto" else way.stores
    held = shelf.held(translator, MODEL, names)
    fusion = held.fusion(translator, way)
    (found,) = translator.translate_all([wave], held.options(way), fusions=[fusion] if fusion else [])
    assert found is not None
    return found


def test_a_mixed_batch_gives_what_one_after_the_other_gives(translator, shelf, waves):
    seen = Seen()

    async def work() -> None:
        async with serving(shelf, seen) as engine:
            async with busy(engine):
                asked = [asyncio.create_task(engine.utterance(w, way)) for w, way in zip(waves, WAYS, strict=True)]
                await until(lambda: engine.in_line == len(waves))
                assert shelf.readers == 6  # those without stores hold none
            together = await asyncio.gather(*asked)
        for wave, way, translation in zip(waves, WAYS, together, strict=True):
            assert_alike(translation, one_by_one(translator, shelf, wave, way))
        texts = [translation.text for translation in together]
        assert texts != [str(t) for t in translator.translate_all(waves)]  # stores had a say

    run(work)
    assert seen.batches == [8]
    assert seen.searches[0] == 6 * SearchOptions().beam
    assert {"load", "hear", "wait", "search"} == set(seen.phases)


def test_different_searches_are_different_batches(translator, waves):
    seen = Seen()
    ways = [replace(PLAIN, options=SearchOptions(beam=beam, n_best=1)) for beam in (1, 5, 1, 5)]

    async def work() -> None:
        async with serving(seen=seen) as engine:
            async with busy(engine):
                asked = [asyncio.create_task(engine.utterance(w, way)) for w, way in zip(waves[:4], ways, strict=True)]
                await until(lambda: engine.in_line == 4)
            for wave, way, translation in zip(waves, ways, await asyncio.gather(*asked), strict=False):
                assert_alike(translation, translator.translate(wave, way.options))

    run(work)
    assert seen.batches == [2, 2]


def test_a_translation_goes_on_from_what_it_begins_with(translator, waves):
    async def work() -> None:
        async with serving() as engine:
            whole = await engine.utterance(waves[1], PLAIN)
            begun = whole.tokens[:3]
            again = await engine.utterance(waves[1], PLAIN, begun)
            assert again.tokens[:3] == begun
            assert again.text == translator.backbone.target.decode(again.tokens)
            all_of_it = await engine.utterance(waves[1], PLAIN, whole.tokens)
            assert all_of_it.text.startswith(whole.text[:-1])
            with refused(422, "does not have"):
                await engine.utterance(waves[1], PLAIN, [10_000_000])
            with refused(422, "more tokens"):
                await engine.utterance(waves[1], PLAIN, [5] * translator.backbone.max_target)

    run(work)


def recording(waves: list[np.ndarray], pause: float = 1.0) -> np.ndarray:
    silence = np.zeros(round(pause * audio.SAMPLE_RATE), np.float32)
    return np.concatenate([part for wave in waves for part in (silence, wave)] + [silence])


def test_segments_are_those_of_a_long_recording(translator, shelf, waves, tmp_path):
    samples = recording(waves[:4] * 4)  # longer than a block
    soundfile.write(tmp_path / "talk.wav", samples, audio.SAMPLE_RATE, subtype="FLOAT")
    fusion = shelf.held(translator, MODEL, ("parliament",)).fusion(translator, PLAIN)
    assert fusion is not None
    expected = list(translator.translate_long(tmp_path / "talk.wav", fusions=[fusion]))

    async def work() -> None:
        async with serving(shelf) as engine:
            found = [s async for s in engine.segments(samples, Way(MODEL, stores=("parliament",)))]
            assert [(s.start, s.end, s.text) for s in found] == [(s.start, s.end, s.text) for s in expected]
            assert [s.score for s in found] == pytest.approx([s.score for s in expected], abs=1e-4)
            assert [s async for s in engine.segments(np.zeros(5 * audio.SAMPLE_RATE, np.float32), PLAIN)] == []
            assert [s async for s in engine.segments(np.zeros(0, np.float32), PLAIN)] == []
            slow = Pauses(pause=2.0)
            fewer = [s async for s in engine.segments(samples[: 15 * audio.SAMPLE_RATE], PLAIN, slow)]
            assert 0 < len(fewer) < 6
            assert engine.waiting == 0

    run(work)
    assert len(expected) == 16


def test_who_goes_away_from_a_recording_leaves_nothing_behind(shelf, waves):
    samples = recording(waves[:4] * 10)

    async def work() -> None:
        async with serving(shelf, batch=2) as engine:
            segments: Any = engine.segments(samples, Way(MODEL))
            await anext(segments)
            assert shelf.readers == 1
            await segments.aclose()
            assert engine.in_line == engine.waiting == 0
            await until(lambda: shelf.readers == 0)

            async def listen() -> None:
                async for _ in engine.segments(samples, Way(MODEL)):
                    pass

            async with busy(engine):
                listening = asyncio.create_task(listen())
                await until(lambda: engine.in_line > 0)
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
                assert engine.in_line == engine.waiting == 0
            await until(lambda: shelf.readers == 0)

    run(work)


def test_a_recording_leaves_room_for_others(waves):
    """In the queue, and in the next batch."""
    samples = recording(waves[:4] * 10)

    async def work() -> None:
        async with serving(batch=4, queue=6) as engine:
            async with busy(engine):
                long: Any = engine.segments(samples, PLAIN)
                first = asyncio.ensure_future(anext(aiter(long)))
                await until(lambda: engine.waiting == 3)  # half the queue
                short = asyncio.create_task(engine.utterance(waves[0], PLAIN))
                await until(lambda: engine.in_line == 4)
            assert (await short).text
            assert (await first).text
            await long.aclose()

    run(work)


def test_a_full_queue_refuses_and_says_when_to_come_back(waves):
    async def work() -> None:
        async with serving(queue=2) as engine:
            async with busy(engine):
                asked = [asyncio.create_task(engine.utterance(wave, PLAIN)) for wave in waves[:2]]
                await until(lambda: engine.in_line == 2)
                for attempt in (
                    engine.utterance(waves[2], PLAIN),
                    anext(aiter(engine.segments(waves[2], PLAIN))),
                    engine.explain(waves[2], PLAIN),
                    engine.run(MODEL, lambda translator: None),
                ):
                    with refused(503, "Too many requests") as caught:
                        await attempt
                    assert int(caught.value.headers["Retry-After"]) >= 1
            assert all(translation.text for translation in await asyncio.gather(*asked))
            assert (await engine.utterance(waves[2], PLAIN)).text

    run(work)


def test_a_request_has_a_time_limit(waves):
    async def work() -> None:
        async with serving() as engine:
            await engine.longest(MODEL)
            async with busy(engine):
                engine.settings = replace(engine.settings, timeout=0.01)
                with refused(504, "longer than this server allows"):
                    await engine.utterance(waves[0], PLAIN)
                with refused(504, "longer than this server allows"):
                    await engine.run(MODEL, lambda translator: None)
                assert engine.in_line == engine.waiting == 0

    run(work)


def test_who_is_cancelled_takes_no_more_of_the_machine(shelf, waves):
    seen = Seen()

    async def work() -> None:
        async with serving(shelf, seen) as engine:
            async with busy(engine):
                gone, here = (asyncio.create_task(engine.utterance(wave, Way(MODEL))) for wave in waves[:2])
                await until(lambda: engine.in_line == 2)
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
                assert engine.in_line == engine.waiting == 1
            assert (await here).text
            await until(lambda: shelf.readers == 0)

    run(work)
    assert seen.batches == [1]


def test_who_is_cancelled_at_any_moment_leaves_nothing_behind(shelf, waves):
    """After any number of turns of the event loop, while the model is loaded, or stores are opened …."""

    async def work() -> None:
        for turns in (*range(12), 20, 40, 80):
            async with serving(shelf) as engine:
                asked = asyncio.create_task(engine.utterance(waves[0], Way(MODEL)))
                for _ in range(turns):
                    await asyncio.sleep(0 if turns < 12 else 0.002)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                await until(lambda engine=engine: shelf.readers == engine.in_line == engine.waiting == 0)
                assert (await engine.utterance(waves[0], PLAIN)).text

    run(work)


def test_draining_finishes_what_was_accepted(translator, waves):
    async def work() -> None:
        engine = BatchingEngine(settings(), threads=1)
        asked = [asyncio.create_task(engine.utterance(wave, PLAIN)) for wave in waves]
        segments = asyncio.create_task(_all(engine.segments(recording(waves[:4]), PLAIN)))
        await until(lambda: engine.waiting > 0)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        with refused(503, "shutting down"):
            await engine.utterance(waves[0], PLAIN)
        for wave, translation in zip(waves, await asyncio.gather(*asked), strict=True):
            assert_alike(translation, translator.translate(wave))
        assert len(await segments) == 4
        await closing
        await engine.close()  # again does no harm

    run(work)


def test_closing_without_draining_refuses_what_waits(waves):
    async def work() -> None:
        engine = BatchingEngine(settings(), threads=1)
        async with busy(engine):
            asked = asyncio.create_task(engine.utterance(waves[0], PLAIN))
            await until(lambda: engine.in_line == 1)
            closing = asyncio.create_task(engine.close(drain=False))
            with refused(503, "shutting down"):
                await asked
        await closing

    run(work)


def test_draining_does_not_wait_for_ever_for_somebody_who_does_not_read(waves):
    async def work() -> None:
        engine = BatchingEngine(settings(timeout=5.0), threads=1)
        segments: Any = engine.segments(recording(waves[:4]), PLAIN)
        await anext(segments)
        engine.settings = replace(engine.settings, timeout=0.01)
        await engine.close()
        with suppress(Refusal):  # what is not computed by now is not going to be
            await _all(segments)
        with refused(503, "shutting down"):
            await engine.run(MODEL, lambda translator: None)

    run(work)


async def _all(segments: AsyncIterator[Any]) -> list[Any]:
    return [segment async for segment in segments]


def test_an_explanation_is_that_of_npda_explain(translator, shelf, waves):
    way = Way(MODEL, stores=("parliament",))
    fusion = shelf.held(translator, MODEL, ("parliament",)).fusion(translator, way)
    memory = hear(translator.backbone, str(sorted(CLIPS.iterdir())[1]))
    expected = explain(translator.backbone, memory, fusion)  # pyright: ignore[reportArgumentType]

    async def work() -> None:
        async with serving(shelf) as engine:
            found = await engine.explain(waves[1], way)
            assert [word.text for word in found.words] == [word.text for word in expected.words]
            assert found.stores == ("parliament",)
            assert found.text == (await engine.utterance(waves[1], way)).text
            with refused(422, "name a store"):
                await engine.explain(waves[1], PLAIN)

    run(work)


def test_work_is_done_between_batches_and_its_errors_are_its_own(waves):
    def fail(translator: Translator) -> None:
        raise ZeroDivisionError

    async def work() -> None:
        async with serving() as engine:
            assert await engine.run(MODEL, lambda translator: translator.backbone.dim) == 128
            with pytest.raises(ZeroDivisionError):
                await engine.run(MODEL, fail)
            assert (await engine.utterance(waves[0], PLAIN)).text

    run(work)


class Failing(Shelf):
    """A shelf whose store "talk" breaks every search."""

    def held(self, translator: Translator, model: str, names: Any) -> Any:
        holding = super().held(translator, model, names)
        if "talk" in holding.signature:
            holding.fusion = lambda translator, way: self  # type: ignore[method-assign]
        return holding

    def apply(self, *_: object) -> Any:
        raise ZeroDivisionError


def test_one_that_fails_does_not_break_the_others(translator, stores, waves):
    shelf = Failing({name: stores[name] for name in ("parliament", "talk")}, stores["counter"])
    ways = [PLAIN, Way(MODEL, stores=("talk",)), Way(MODEL, stores=("parliament",))]

    async def work() -> None:
        async with serving(shelf) as engine:
            async with busy(engine):
                asked = [asyncio.create_task(engine.utterance(w, way)) for w, way in zip(waves, ways, strict=False)]
                await until(lambda: engine.in_line == 3)
            plain, broken, steered = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(broken, ZeroDivisionError)
            for found, wave, way in ((plain, waves[0], ways[0]), (steered, waves[2], ways[2])):
                assert isinstance(found, Translation)
                assert_alike(found, one_by_one(translator, shelf, wave, way))

    run(work)


class Lossy(Datastore):
    """A store of which a part never answers, as one on a cluster may be searched."""

    left_out = 0

    def searcher(self, *given: Any, **named: Any) -> Any:
        found, store = super().searcher(*given, **named), self

        class Counted:
            def search(self, queries: np.ndarray, k: int) -> Any:
                store.left_out += 1
                return found.search(queries, k)

        return Counted()


def test_a_translation_says_that_a_part_of_its_store_was_left_out(stores, waves):
    whole = stores["parliament"]
    shelf = Shelf({"whole": whole, "lossy": Lossy(whole.path, whole.info)}, stores["counter"])

    async def work() -> None:
        async with serving(shelf) as engine:
            found = [await engine.utterance(waves[0], Way(MODEL, stores=(name,))) for name in ("whole", "lossy")]
            assert [translation.partial for translation in found] == [False, True]
            assert found[0].text == found[1].text

    run(work)


def test_what_cannot_be_done_is_refused_with_a_sentence(shelf, waves, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')

    async def work() -> None:
        async with serving(shelf, models={MODEL: SHIPPED, "broken": tmp_path}) as engine:
            for way, status, words in (
                (Way("huge"), 404, "no model 'huge'; there is mini, broken"),
                (Way("broken"), 503, "cannot be loaded"),
                (Way(MODEL, stores=("law",)), 404, "no store 'law'"),
                (Way(MODEL, language="Klingon!"), 422, "no language called"),
                (Way(MODEL, source_language="Klingon!"), 422, "no language called"),
            ):
                with refused(status, words):
                    await engine.utterance(waves[0], way)
            with refused(413, "61 s long; this model takes 60 s"):
                await engine.utterance(np.zeros(61 * audio.SAMPLE_RATE, np.float32), PLAIN)
            with refused(404, "no model"):
                await engine.longest("huge")
            assert await engine.longest(MODEL) == 60.0
            assert isinstance(await engine.utterance(np.zeros(0, np.float32), PLAIN), Translation)
        assert shelf.readers == 0

    run(work)
    as_the_seam_has_it: Engine = BatchingEngine(settings())
    assert as_the_seam_has_it


@pytest.fixture(scope="module")
def whisper(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    tiny_whisper.backbone(source_language=None).save_pretrained(folder)
    return folder


def test_one_model_hears_several_languages(whisper):
    wave = tiny_whisper.waveform(1.5)
    options = SearchOptions(beam=3, max_length=12)
    ways = [
        Way("w", spoken, written, (), options=options) for spoken, written in (("de", "de"), ("de", "en"), ("en", "en"))
    ]

    async def work() -> None:
        async with serving(models={"w": whisper}) as engine:
            async with busy(engine, "w"):
                asked = [asyncio.create_task(engine.utterance(wave, way)) for way in ways]
                await until(lambda: engine.in_line == 3)
            for way, translation in zip(ways, await asyncio.gather(*asked), strict=True):
                alone = Translator.from_pretrained(whisper, way.source_language)
                (expected,) = alone.translate_all([wave], options, way.language, listens=False)
                assert expected is not None
                assert_alike(translation, expected)
            with refused(422, "which language is spoken"):
                await engine.utterance(wave, Way("w", stores=()))
            with refused(422, "does not know the language 'fr'"):
                await engine.utterance(wave, Way("w", "fr", stores=()))
            assert (await engine.utterance(wave, Way("w", "German", "English", (), options=options))).text

    run(work)
