"""YAML as recipes use it: plain data, each key once, numbers and words read as a person would read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from npda.io.errors import InputError

_LARGEST = 256 * 1024  # bytes of a recipe; larger files are something else


class _Loader(yaml.SafeLoader):
    """Without aliases, which can make a small file a huge tree, and with the words and numbers of YAML 1.2.

    PyYAML follows YAML 1.1, where the language code `no` is false, 2e-3 is text and 12:30 is 750.
    """

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 (filled below, and shared with no other loader)

    def compose_node(self, parent, index):  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not allowed; write it out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node, deep=False):
        first: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                problem = f"the key {key!r} is not a word; put it in quotes"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            if key in first:
                problem = f"the key {key!r} stands in line {first[key]} already; remove one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            first[key] = line
        return super().construct_mapping(node, deep)


for _tag, _pattern, _starts in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(\d[\d_]*\.\d*|\.\d+|\d[\d_]*(?=[eE]))([eE][-+]?\d+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_starts))


def read_yaml(path: str | Path) -> Any:
    """The contents of a YAML file; an error names the line."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > _LARGEST:
        raise InputError(f"{path} is larger than {_LARGEST // 1024} KiB, so it is not a recipe.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8; save the file as UTF-8.") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """The contents of YAML text. where: its file or option, for the sentence that tells a fault"""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a safe loader, see above)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{where}{line}: {error.problem or error.context}.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply.") from None
