"""The version of the code: what changes a result changes it, words about the code do not."""

from pathlib import Path

import pytest

from npda.stages import code as module
from npda.stages.code import Code

SOURCES = {
    "__init__": "VERSION = 1",
    "train": '''
        """Train a model."""
        from typing import TYPE_CHECKING
        from house.models import net
        from . import loss
        if TYPE_CHECKING:
            from house import page

        def train(rate: float = 0.1) -> float:
            """Return the loss."""
            from house.deep import late
            return net.FACTOR * loss.loss() * rate  # for now
        ''',
    "loss": "def loss(): return 1",
    "page": "COLOUR = 'red'",
    "models/__init__": "FAMILIES = {'a': 'house.models.named:Net'}",
    "models/net": "FACTOR = 2",
    "models/named": "class Net: pass",
    "models/other": "class Other: pass",
    "deep/late": "X = 1",
    "io/files": "Y = 1",
    "decoding/__init__": "",
    "decoding/beam": "import house.loss",
}


class House:
    """A package on disk whose modules can be rewritten."""

    def __init__(self, root: Path) -> None:
        for name, source in SOURCES.items():
            self.write(root / "house", name, source)
        self.root = root / "house"

    def write(self, root: Path, name: str, source: str) -> None:
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = source.strip("\n").split("\n")
        indent = len(lines[0]) - len(lines[0].lstrip())
        path.write_text("\n".join(line[indent:] for line in lines) + "\n", encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> None:
        path = self.root / f"{name}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def digest(self, *modules: str, without: tuple[str, ...] = ()) -> str:
        """As another process would find it."""
        for cached in (module._digest, module._source, module._root):
            cached.cache_clear()
        return Code(modules or ("house.train",), without).digest()


@pytest.fixture
def house(tmp_path: Path, monkeypatch) -> House:
    monkeypatch.syspath_prepend(tmp_path)
    return House(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("train", "Train a model.", "Learn the weights of a model."),
        ("train", "Return the loss.", "Train,\n    then return the loss."),
        ("train", "  # for now", ""),
        ("train", "def train", "\n\n# About this function\ndef train"),
        ("train", "from house import page", "from house import page, decoding"),
        ("train", "net.FACTOR * loss.loss()", "(net.FACTOR\n        * loss.loss())"),
        ("page", "red", "blue"),
        ("models/other", "Other", "Another"),
        ("io/files", "1", "2"),
        ("__init__", "1", "2"),
    ],
)
def test_what_decides_nothing_does_not_count(house: House, name: str, old: str, new: str):
    before = house.digest()
    house.change(name, old, new)
    assert house.digest() == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("train", "0.1", "0.2"),
        ("train", "* rate", "+ rate"),
        ("loss", "1", "2"),
        ("models/net", "2", "3"),
        ("models/__init__", "'a'", "'b'"),
        ("models/named", "pass", "x = 1"),
        ("deep/late", "1", "2"),
    ],
)
def test_what_a_module_imports_counts(house: House, name: str, old: str, new: str):
    before = house.digest()
    house.change(name, old, new)
    assert house.digest() != before
    house.change(name, new, old)
    assert house.digest() == before


def test_a_package_stands_for_its_modules_and_parts_can_be_left_out(house: House):
    assert Code(("house.decoding",)).sources() == ["house.decoding", "house.decoding.beam", "house.loss"]
    assert Code(("house.decoding",), ("house.loss",)).sources() == ["house.decoding", "house.decoding.beam"]
    before = house.digest("house.train", "house.models", without=("house.loss",))
    house.change("loss", "1", "2")
    assert house.digest("house.train", "house.models", without=("house.loss",)) == before
    house.change("models/other", "Other", "Another")
    assert house.digest("house.train", "house.models", without=("house.loss",)) != before
    with pytest.raises(ValueError, match=r"no module house\.attic"):
        Code(("house.attic",)).digest()


def rooms(code: Code) -> set[str]:
    return {name.split(".")[1] for name in code.sources()}


def test_the_code_of_each_command_is_what_decides_its_results():
    from npda.adapt import adapt, judging
    from npda.demo import stages
    from npda.reproduce import planning

    training = rooms(planning._TRAINING)
    assert {"models", "training", "corpus", "text", "audio"} <= training
    assert not {"io", "stages", "report", "decoding", "datastore", "evaluation", "cli"} & training
    for code in (planning._TRANSLATING, adapt._TUNING, stages.CODE):
        translating = rooms(code)
        assert {"models", "datastore", "decoding", "evaluation", "corpus", "audio"} <= translating
        assert not {"io", "stages", "report", "training", "cli"} & translating
    assert {"models", "datastore"} <= rooms(adapt._STORE)
    assert not {"decoding", "evaluation", "training"} & rooms(adapt._STORE)
    assert {"models", "decoding"} <= rooms(judging.CODE)
    assert rooms(adapt._LEAKS) == {"corpus"}
