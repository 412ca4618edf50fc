"""Imports point downwards and never in a circle, and nothing in the sources can run code out of a file."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "npda"

# From top to bottom: a room may import itself and the rooms below it. A new room is one new line.
ROOMS = (
    "npda",  # the package itself: npda/__init__.py and npda/__main__.py
    "cli",
    "serving",
    "cluster",
    "adapt",
    "demo",
    "reproduce",
    "systems",
    "report",
    "stages",
    "training",
    "recordings",
    "checkup",
    "cascade",
    "translator",
    "translation",
    "explanation",
    "terms",
    "evaluation",
    "decoding",
    "datastore",
    "models",
    "corpus",
    "segmentation",
    "writers",
    "subtitles",
    "text",
    "audio",
    "io",
)

# Rooms that stand higher and yet must know nothing of these: training ends with a model, not with a search.
# The engine of stages knows nothing of speech.
APART = {
    "training": ("cascade", "translator", "evaluation", "decoding", "datastore"),
    "stages": tuple(room for room in ROOMS[ROOMS.index("stages") + 1 :] if room != "io"),
}

# What opening and searching a datastore does without; a package stands for everything inside it.
NOT_FOR_OPENING = (
    *(f"npda.datastore.{name}" for name in ("arrays", "build", "edit", "encode", "compress", "pruning", "workspace")),
    *(f"npda.datastore.index.{name}" for name in ("build", "train", "recall")),
    *(
        f"npda.{room}"
        for room in ("training", "evaluation", "decoding", "adapt", "demo", "reproduce", "systems", "cli")
    ),
)

# What they read can run code, so a file from elsewhere would be a program.
UNSAFE_MODULES = ("pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve")
UNSAFE_CALLS = ("eval", "exec")


def module_name(path: Path) -> str:
    """src/npda/corpus/mini/__init__.py → npda.corpus.mini"""
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """npda.corpus.mini → corpus; what the package itself offers, such as npda.Translator → npda"""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1].islower() and parts[1] != "__main__" else "npda"


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, inside functions too: `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package else -1]
                here = parents[: len(parents) - node.level + 1]
                base = ".".join([*here, *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def upward_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    """Every import that does not point downwards, as a sentence."""
    importer, faults = room(module), []
    for line, name in imports(source, module, is_package):
        if name.split(".")[0] != "npda":
            continue
        # `from npda import __version__` takes a name of the package itself, which imports nothing.
        imported = "io" if name.startswith("npda.__") else room(name)
        if imported not in ROOMS:
            faults.append(f"{module}, line {line}: {imported} has no place in ROOMS yet; add it there.")
        elif imported == importer:
            continue
        elif ROOMS.index(imported) < ROOMS.index(importer):
            faults.append(f"{module}, line {line}: {importer} imports {imported}, which stands above it.")
        elif imported in APART.get(importer, ()):
            faults.append(f"{module}, line {line}: {importer} imports {imported}, and must do without it.")
    return faults


def module_graph(sources: Mapping[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Which modules import which, inside functions too; imports for annotations only do not count.

    sources: by module name, each with whether it is a package's __init__.py
    """
    graph: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        names = [name for _, name in imports(_without_annotations(source), module, is_package)]
        # `from a import b` means the module a.b if there is one, else something inside a.
        found = {name if name in sources else name.rpartition(".")[0] for name in names}
        graph[module] = (found & sources.keys()) - {module}
    return graph


def _without_annotations(source: str) -> str:
    """The source without what stands below `if TYPE_CHECKING:`."""

    class Remover(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
            if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                return node.orelse
            return self.generic_visit(node)

    return ast.unparse(Remover().visit(ast.parse(source)))


def import_cycle(graph: Mapping[str, set[str]]) -> str:
    """One circle of imports as "a → b → a", or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def unsafe_code(source: str, module: str) -> list[str]:
    """Every use of something that could run code out of a file, as a sentence."""
    faults = [
        f"{module}, line {line}: imports {name.split('.')[0]}."
        for line, name in imports(source, module, False)
        if name.split(".")[0] in UNSAFE_MODULES
    ]
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).removeprefix("builtins.")
        allowed = {k.arg for k in node.keywords if not (isinstance(k.value, ast.Constant) and not k.value.value)}
        denied = {k.arg for k in node.keywords} - allowed
        if called in UNSAFE_CALLS:
            faults.append(f"{module}, line {node.lineno}: calls {called}().")
        if "allow_pickle" in allowed or "weights_only" in denied:
            faults.append(f"{module}, line {node.lineno}: {called}() may open a pickle.")
    return faults


FILES = sorted(SOURCES.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_downwards_and_nothing_runs_code_from_files(path: Path):
    source, module = path.read_text(encoding="utf-8"), module_name(path)
    assert room(module) in ROOMS, f"{room(module)} has no place in ROOMS yet; add it there."
    assert upward_imports(source, module, path.name == "__init__.py") == []
    assert unsafe_code(source, module) == []


def test_no_module_imports_itself_through_others():
    sources = {module_name(path): (path.read_text(encoding="utf-8"), path.name == "__init__.py") for path in FILES}
    assert import_cycle(module_graph(sources)) == ""


@pytest.mark.parametrize(
    ("b", "cycle"),
    [
        ("import npda.a", "npda.a → npda.b → npda.a"),
        ("def f():\n    from npda.a import x", "npda.a → npda.b → npda.a"),
        ("from . import a", "npda.a → npda.b → npda.a"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import npda.a", ""),
        ("import npda.c, npda.absent, torch", ""),
    ],
)
def test_a_circle_of_imports_is_named(b: str, cycle: str):
    sources = {"npda": ("", True), "npda.a": ("from npda.b import y", False), "npda.b": (b, False)}
    found = import_cycle(module_graph({**sources, "npda.c": ("", False)}))
    turned = " → ".join(["npda.b", "npda.a", "npda.b"]) if cycle else ""
    assert found in (cycle, turned)


def test_opening_a_datastore_imports_nothing_of_building_or_training_one():
    store = Path(__file__).parent / "fixtures" / "version-0.1.0" / "store"
    program = (
        "import sys\n"
        "from npda import Datastore\n"
        f"store = Datastore.open({str(store)!r})\n"
        "store.neighbour_info(0), store.search(store.entries.keys(store.entries.sample(1, 0)), 1)\n"
        "print(*sys.modules)\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "npda.datastore.store" in loaded
    assert [name for name in loaded if any(f"{name}.".startswith(f"{kept}.") for kept in NOT_FOR_OPENING)] == []


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        (
            "npda.models.a",
            "from npda.decoding.beam import search",
            "models imports decoding, which stands above",
        ),
        ("npda.models.a", "def f():\n    from npda import decoding", "line 2: models imports decoding"),
        ("npda.models.a", "import npda.cli.main as m", "models imports cli"),
        ("npda.audio", "from .corpus import manifest", "audio imports corpus"),
        ("npda.corpus.mini.a", "from ...models import b", "corpus imports models"),
        ("npda.evaluation.scores", "from npda.systems import x", "evaluation imports systems"),
        ("npda.datastore.build", "from npda.training import x", "datastore imports training"),
        (
            "npda.training.loop.train",
            "from npda.decoding import x",
            "training imports decoding, and must do without",
        ),
        ("npda.stages.run", "from npda.corpus import x", "stages imports corpus, and must do without"),
        ("npda.io.files", "import npda", "io imports npda, which stands above"),
        ("npda.cli.demo", "from npda import Translator", "cli imports npda, which stands above"),
        ("npda.cli.a", "from npda.attic import x", "attic has no place in ROOMS yet"),
    ],
)
def test_an_upward_import_is_found(module: str, source: str, fault: str):
    (found,) = upward_imports(source, module)
    assert fault in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("npda.cli", "from npda.translator import Translator\nfrom . import demo"),
        ("npda.training.loop.train", "from npda.corpus import a\nfrom npda import audio, text, models"),
        ("npda.corpus.mini", "from . import grammar\nfrom .grammar import x\nfrom ..pairs import y"),
        ("npda.cli.version", "from npda import __version__\nimport torch, npda_like"),
        ("npda.serving.app", "from npda.translator import Translator"),
    ],
)
def test_a_downward_import_is_left_alone(module: str, source: str):
    assert upward_imports(source, module, is_package=module in ("npda.cli", "npda.corpus.mini")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import os, marshal",
        "eval('1')",
        "builtins.exec(code)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=anything)",
        "torch.load(path, weights_only=False)",
    ],
)
def test_unsafe_code_is_found(source: str):
    assert len(unsafe_code(source, "npda.x")) == 1


def test_model_eval_is_no_eval():
    assert unsafe_code("model.eval()\nnp.load(p, allow_pickle=False)\ntorch.load(p, weights_only=True)", "") == []
