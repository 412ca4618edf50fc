"""Models that are loaded when they are needed, and go when they are not."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import tiny_whisper

from npda.demo.model import SHIPPED
from npda.serving.engine.loaded import LoadedModels
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.translator import Translator


def settings(**changes: Any) -> Settings:
    return Settings(**{"models": {"mini": SHIPPED}, "data": Path("nowhere"), "device": "cpu", "idle": 10.0, **changes})


class Clock:
    """Stands still unless it is told to go on. minutes"""

    minutes = 0.0

    def __call__(self) -> float:
        return 60 * self.minutes


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The directories of all models that are opened from now on."""
    paths: list[str] = []
    real = Translator.from_pretrained.__func__  # type: ignore[attr-defined]

    def counting(cls: Any, model: Any, *args: Any, **options: Any) -> Translator:
        paths.append(Path(model).name)
        return real(cls, model, *args, **options)

    monkeypatch.setattr(Translator, "from_pretrained", classmethod(counting))
    return paths


def test_requests_that_come_together_wait_for_one_load(opened):
    async def use(models: LoadedModels) -> Translator:
        async with models.use("mini") as translator:
            return translator

    async def work() -> None:
        models = LoadedModels(settings())
        assert not models.is_loaded("mini")
        gone, *others = (asyncio.create_task(use(models)) for _ in range(4))
        await asyncio.sleep(0)
        gone.cancel()  # the others get it all the same
        assert len(set(map(id, await asyncio.gather(*others)))) == 1
        assert models.is_loaded("mini")
        models.close()

    asyncio.run(work())
    assert opened == [SHIPPED.name]


def test_a_model_is_unloaded_when_nobody_has_used_it_for_long_enough(opened):
    clock, unloaded = Clock(), []

    async def work() -> None:
        models = LoadedModels(settings(), unloaded.append, clock=clock)
        async with models.use("mini"):
            clock.minutes = 100
            assert await models.unload_idle() == []  # it is in use
            with pytest.raises(ValueError, match="in use"):
                await models.unload("mini")
        clock.minutes = 109
        assert await models.unload_idle() == []
        async with models.use("mini"):
            pass
        clock.minutes = 118
        assert await models.unload_idle() == []
        clock.minutes = 119
        assert await models.unload_idle() == ["mini"]
        assert not models.is_loaded("mini")
        async with models.use("mini"):
            assert models.is_loaded("mini")
        models.close()

    asyncio.run(work())
    assert unloaded == ["mini"]
    assert len(opened) == 2


def test_models_stay_unless_there_is_a_limit():
    clock = Clock()

    async def work() -> None:
        models = LoadedModels(settings(idle=0.0), clock=clock)
        async with models.use("mini"):
            pass
        clock.minutes = 1e9
        assert await models.unload_idle() == []
        assert models.is_loaded("mini")
        models.close()

    asyncio.run(work())


def test_a_model_that_cannot_be_loaded_is_tried_again(tmp_path, opened):
    folder = tmp_path / "later"

    async def use(models: LoadedModels) -> None:
        async with models.use("later"):
            pass

    async def work() -> None:
        models = LoadedModels(settings(models={"later": folder}))
        found = await asyncio.gather(*(use(models) for _ in range(3)), return_exceptions=True)
        assert [isinstance(one, Refusal) and one.status for one in found] == [503] * 3
        assert str(folder) not in str(found[0])  # paths are nobody's business
        tiny_whisper.backbone().save_pretrained(folder)
        await use(models)
        with pytest.raises(Refusal, match="no model 'none'; there is later"):
            async with models.use("none"):
                pass
        models.close()

    asyncio.run(work())
    assert opened == ["later"] * 2


def test_languages_share_the_weights(tmp_path, opened):
    tiny_whisper.backbone(source_language=None).save_pretrained(tmp_path / "w")

    async def work() -> None:
        models = LoadedModels(settings(models={"w": tmp_path / "w"}, source_language="de"))
        async with models.use("w") as default, models.use("w", "en") as english, models.use("w", "de") as german:
            assert default is german
            assert (german.backbone.source_language, english.backbone.source_language) == ("de", "en")
            assert german.backbone.prompt("de") != english.backbone.prompt("en")
            ours, theirs = (
                {name: p.data_ptr() for name, p in t.backbone.named_parameters()}  # type: ignore[attr-defined]
                for t in (english, german)
            )
            assert ours == theirs
            assert english.backbone.packing is german.backbone.packing  # type: ignore[attr-defined]
            assert english.backbone.decoder_digest() == german.backbone.decoder_digest()
        with pytest.raises(Refusal, match="does not know the language 'xx'"):
            async with models.use("w", "xx"):
                pass
        models.close()

    asyncio.run(work())
    assert opened == ["w"]


def test_a_model_that_hears_one_language_stays_as_it_is():
    translator = Translator.from_pretrained(SHIPPED)
    assert translator.hearing("English") is translator


# Loads a model of some 120 MB, translates with it, and unloads it; prints what it had grown by and what stayed.
MEMORY = """
import asyncio, sys
from pathlib import Path
import numpy as np
from npda.demo.model import SHIPPED
from npda.serving.engine.asks import Way
from npda.serving.engine.engine import BatchingEngine
from npda.serving.settings import Settings
from npda.decoding.beam import SearchOptions

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

async def use(engine, name):
    wave = np.random.default_rng(0).normal(size=16_000).astype(np.float32)
    ways = [Way(name, stores=(), options=SearchOptions(max_length=8)) for _ in range(4)]
    await asyncio.gather(*(engine.utterance(wave, way) for way in ways))

async def main():
    models = {"mini": SHIPPED, "large": Path(sys.argv[1])}
    settings = Settings(models, Path("nowhere"), device="cpu", int8=sys.argv[2] == "int8")
    engine = BatchingEngine(settings, threads=1)
    for _ in range(2):  # whatever the first model brings with it
        await use(engine, "mini")
        await engine.models.unload("mini")
    before = resident()
    await use(engine, "large")
    loaded = resident()
    await engine.models.unload("large")
    print(loaded - before, resident() - before)
    await engine.close()

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see a process's memory")
@pytest.mark.parametrize("bits", ["float32", "int8"])
def test_unloading_gives_memory_back_to_the_system(tmp_path, bits):
    size: dict[str, Any] = dict(d_model=512, encoder_layers=6, decoder_layers=4, init_std=0.02)
    size |= dict(encoder_ffn_dim=2048, decoder_ffn_dim=2048)
    model = tiny.backbone(**size)
    megabytes = sum(p.numel() * p.element_size() for p in model.parameters()) >> 20
    assert megabytes > 100
    model.save_pretrained(tmp_path)
    del model
    command = [sys.executable, "-c", MEMORY, str(tmp_path), bits]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    grown, stayed = map(int, answer.stdout.split())
    print(grown, stayed)
    assert grown > 900 * megabytes * (1 if bits == "float32" else 0.5)
    assert stayed < 0.2 * grown
