"""Stores that a cluster builds have the bytes of those that one machine builds, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_store
import torch
from child_env import child_env
from cluster_tasks import Ends, EndsOnce, FullDisk
from store_bytes import contents

from npda.corpus.pairs import Pair, write_pairs
from npda.datastore import build as build_module
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.datastore.workers import Workers
from npda.io.errors import InputError

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")

from npda.cluster import crew as crew_module  # noqa: E402
from npda.cluster.crew import ClusterOptions, crew  # noqa: E402

OPTIONS = BuildOptions(index="IVF8,SQ8", chunk=10, progress=False)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As the workers have, on machines with one processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m"
    tiny_store.backbone().save_pretrained(path)
    return path


@pytest.mark.slow
def test_what_ends_every_worker_is_given_up(machines, model, monkeypatch):
    monkeypatch.setattr(crew_module, "_LIVES", 2)
    options = ClusterOptions(machines.address)
    ended = pytest.raises(InputError, match=r"Chunk 0 has ended 2 workers.*enough memory")
    with crew(options, model, None, tiny_store.backbone()) as workers, ended:
        list(workers.map(Ends(), range(1)))


@pytest.mark.slow
def test_a_killed_driver_goes_on_to_the_same_bytes(machines, model, tmp_path):
    pairs = tiny_store.pairs(30_000)
    write_pairs(tmp_path / "text.tsv", pairs)
    options = ["--text", "text.tsv", "--index", "exact", "--out", "store", "--quiet"]
    command = [sys.executable, "-m", "npda", "build", "--model", str(model), *options]
    environment = {**child_env(), "OMP_NUM_THREADS": "1"}  # as in this process
    process = subprocess.Popen([*command, "--ray", machines.address], cwd=tmp_path, env=environment)
    records, deadline = tmp_path / ".store.building" / "records", time.monotonic() + 300
    while not (records.is_dir() and list(records.glob("0*.json"))):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "store").exists()
    (record, *_) = sorted(records.glob("0*.json"))
    keys = tmp_path / ".store.building" / "store" / "shards" / record.stem / "keys.npy"
    written = keys.stat().st_mtime_ns

    subprocess.run([*command, "--ray", machines.address], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "store" / "shards" / record.stem / "keys.npy").stat().st_mtime_ns == written
    source = Source("text.tsv", pairs, "text")
    whole = Datastore.build_from(
        tiny_store.backbone(), source, tmp_path / "whole", BuildOptions(index="exact", progress=False)
    )
    assert contents(tmp_path / "store") == contents(whole.path)


@pytest.mark.slow
def test_a_model_that_is_elsewhere_or_another_one_is_refused(machines, model, tmp_path):
    options = ClusterOptions(machines.address)
    with pytest.raises(InputError, match="does not see"), crew(options, tmp_path, None, tiny_store.backbone()):
        pass
    with pytest.raises(InputError, match="has another model in"), crew(options, model, None, tiny_store.backbone(3)):
        pass


@pytest.fixture(scope="module")
def doomed(machines) -> Any:
    """A second machine, for the last test that needs one to kill."""
    return machines.add()


@pytest.fixture(scope="module")
def workers(machines, one_thread, doomed, model) -> Iterator[Workers]:
    """They hold all processors until the last test: those with workers of their own come first."""
    with crew(ClusterOptions(machines.address), model, None, tiny_store.backbone()) as found:
        assert len(found) == 2
        yield found


@pytest.mark.slow
def test_what_a_lost_worker_was_at_is_done_again_in_its_place(workers, tmp_path):
    assert list(workers.map(EndsOnce(tmp_path), range(7))) == [(n, n * n) for n in range(7)]
    assert (tmp_path / "ended").exists()


@pytest.mark.slow
def test_a_full_disk_or_a_folder_nobody_else_sees_leaves_nothing(workers, tmp_path, monkeypatch):
    backbone, pairs = tiny_store.backbone(), tiny_store.pairs(20)
    options = replace(OPTIONS, workers=workers)
    opened = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(InputError, match=r"does not see .*use a directory that all machines share"):
        # In another process this is another file, or none.
        Datastore.build(backbone, pairs, f"/proc/self/fd/{opened}/s", options=options)
    os.close(opened)
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(build_module, "ShardMaking", lambda *_: FullDisk())
    with pytest.raises(InputError, match="No space left on device; what is finished is kept"):
        Datastore.build(backbone, pairs, tmp_path / "s", options=options)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_store_built_while_a_machine_is_killed_has_the_same_bytes(machines, doomed, workers, tmp_path):
    pairs = tiny_store.pairs(600)
    backbone = tiny_store.backbone()
    whole = Datastore.build(backbone, pairs, tmp_path / "whole", options=OPTIONS)

    def while_killing() -> Iterator[Pair]:
        for number, pair in enumerate(pairs):
            if number == 200:
                machines.kill(doomed)
            yield pair

    source = Source("pairs", while_killing(), "text")
    built = Datastore.build_from(backbone, source, tmp_path / "built", replace(OPTIONS, workers=workers))
    assert contents(built.path) == contents(whole.path)
    assert sorted(os.listdir(tmp_path)) == ["built", "whole"]
    verify(built.path, progress=False)
