"""The variants that write a smaller store: what they search, and the share of the bytes, counted by hand."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import tiny_store

from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.systems.variants import variant_fusion

HEADER = 128  # bytes of an .npy file before its numbers


def files(store: Path) -> int:
    """Bytes of everything in a store but its description."""
    return sum(
        file.stat().st_size
        for file in store.rglob("*")
        if file.is_file() and file.name not in ("datastore.json", "README.md")
    )


@pytest.mark.parametrize("variant", ["pca", "pruned"])
def test_share_of_the_bytes_is_that_of_the_files(variant: str, tmp_path: Path):
    keys = np.repeat(tiny_store.clustered(200, dim=8), 2, axis=0)  # every key twice: half of them can go
    store = tiny_store.store_of(tmp_path / "whole", [keys], index="IVF4,Flat")
    options = KnnOptions(k=4, lambda_=0.5, temperature=10.0)
    folder = tmp_path / "variant"
    for _ in range(2):  # the second time the smaller store is found again
        fusion, figures = variant_fusion(variant, tiny.backbone(), store, options, [], SearchOptions(), None, folder)
        assert isinstance(fusion, KnnFusion)
        assert figures() == {"share of the bytes": files(folder / "store") / files(tmp_path / "whole")}
    if variant == "pca":
        whole, half = (next(path.rglob("keys.npy")).stat().st_size for path in (tmp_path / "whole", folder))
        assert (whole, half) == (HEADER + 400 * 8 * 2, HEADER + 400 * 4 * 2)


def test_sizes_do_not_count_keys_twice(tmp_path: Path):
    sizes = tiny_store.store_of(tmp_path / "whole", [tiny_store.clustered(30, dim=8)]).sizes()
    assert sizes["keys"] == HEADER + 30 * 8 * 2
    assert sizes["keys"] < sizes["shards"] == sizes["total"] == files(tmp_path / "whole")
    assert sizes["index"] == 0
