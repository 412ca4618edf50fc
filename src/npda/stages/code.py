"""The version of the code that makes a result: a digest of the sources that decide it.

Comments, docstrings and layout do not count, so a reworded sentence does not throw away an hour of training.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Reading, writing, locks and progress, and the engine itself, decide no result.
_NEVER = ("io", "stages")


@dataclass(frozen=True)
class Code:
    """The modules a result depends on, each with everything it imports from its own package.

    modules: full names; a package stands for all modules in it
    without: modules and packages that decide nothing here, or whose share is in the settings already
    """

    modules: tuple[str, ...]
    without: tuple[str, ...] = ()

    def sources(self) -> list[str]:
        """The names of all modules that count."""
        package = self.modules[0].partition(".")[0]
        left_out = (*self.without, *(f"{package}.{room}" for room in _NEVER))
        waiting = [each for name in self.modules for each in (name, *_inside(name))]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found and not any(f"{name}.".startswith(f"{other}.") for other in left_out):
                found.add(name)
                waiting += _source(name)[1]
        return sorted(found)

    def digest(self) -> str:
        """16 digits that change with the code; as of the first look in this process."""
        return _digest(self)


@cache
def _digest(code: Code) -> str:
    lines = (f"{name} {_source(name)[0]}\n" for name in code.sources())
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


@cache
def _source(module: str) -> tuple[str, tuple[str, ...]]:
    """The digest of a module's statements, and the modules of its package that it needs."""
    path = _path(module)
    if path is None:
        raise ValueError(f"there is no module {module}")
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, block, None), list):
                setattr(node, block, [each for each in statements if not _is_idle(each)])
    here = module if path.name == "__init__.py" else module.rpartition(".")[0]
    package = module.partition(".")[0]
    # The package's own __init__ offers everything and decides nothing.
    named = {name for name in _named(tree, here) if name.startswith(f"{package}.") and _path(name) is not None}
    parents = {name.rpartition(".")[0] for name in (*named, module)}
    parents = {name for name in parents - {package} if _path(name) is not None}
    digest = hashlib.sha256("".join(_structure(tree)).encode()).hexdigest()
    return digest, tuple(sorted(named | parents - {module}))


def _is_idle(statement: ast.stmt) -> bool:
    """Whether a statement does nothing when the program runs: a docstring, an import for type checkers."""
    match statement:
        case ast.Expr(ast.Constant(str())):
            return True
        case ast.If(ast.Name("TYPE_CHECKING"), orelse=[]):
            return True
    return False


def _named(tree: ast.Module, here: str) -> Iterator[str]:
    """Everything that may be a module: imports, inside functions too, and names of modules in strings.

    here: the package that relative imports start from
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names, level):
                up = here.rsplit(".", level - 1)[0] if level else ""
                base = ".".join(part for part in (up, module) if part)
                yield from (base, *(f"{base}.{alias.name}" for alias in names))
            case ast.Constant(str(text)) if re.fullmatch(r"\w+(\.\w+)+(:\w+)?", text):
                yield text.partition(":")[0]


def _structure(node: Any) -> Iterator[str]:
    """A syntax tree as text; empty fields are left out, since newer versions of Python have more of them."""
    if isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in ast.iter_fields(node):
            if value is not None and value != []:
                yield f"{name}="
                yield from _structure(value)
        yield ")"
    elif isinstance(node, list):
        for each in node:
            yield from _structure(each)
    else:
        yield f"{node!r},"


def _inside(module: str) -> Iterator[str]:
    """All modules in a package; none in a module."""
    path = _path(module)
    if path is not None and path.name == "__init__.py":
        for source in path.parent.rglob("*.py"):
            parts = source.relative_to(path.parent).with_suffix("").parts
            yield ".".join([module, *(part for part in parts if part != "__init__")])


def _path(module: str) -> Path | None:
    """The source of a module, found without importing it."""
    package, *rest = module.split(".")
    root = _root(package)
    if root is None:
        return None
    place = root.joinpath(*rest)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def _root(package: str) -> Path | None:
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None
