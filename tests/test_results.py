"""Tables of the docs are what their run files say."""

import json

import pytest

from benchmarks import results

RUN = {
    "npda": "9.9",
    "commit": "abc",
    "command": "python -m benchmarks.exact",
    "output": {
        "title": "exact",
        "threads": 1,
        "load": {"before": 2.4, "after": 3.0},
        "lines": [
            {"name": "a / b", "value": 1.234, "bar": 1.1, "most": False, "note": "", "verdict": "PASS"},
            {"name": "c / d", "value": 0.5, "bar": None, "most": False, "note": "", "verdict": ""},
            {"name": "e", "reason": "no GPU", "verdict": "SKIPPED"},
        ],
    },
}
TABLE = """
| exact | measured | bar |
| --- | ---: | ---: |
| a / b | 1.23 | ≥ 1.1 |
| c / d | 0.50 |  |
| e | skipped | no GPU |

1 thread(s), load 2 of the machine.

Measured with npda 9.9 (abc): `python -m benchmarks.exact`

"""


def test_every_page_is_up_to_date():
    assert not results.changed(), "run `make results`"


def test_every_run_file_has_a_place_and_names_its_version():
    pages = "".join(page.read_text(encoding="utf-8") for page in results.PAGES.glob("*.md"))
    for path in results.RUNS.glob("*.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        assert run["npda"]
        assert run["commit"]
        assert run["command"]
        assert f"<!-- results: {path.stem} -->" in pages


def test_a_table_is_written_between_its_marks_and_nothing_else(tmp_path):
    (tmp_path / "exact.json").write_text(json.dumps(RUN), encoding="utf-8")
    page = "before\n<!-- results: exact -->\nold figures\n<!-- end of results -->\nafter"
    new = results.written(page, tmp_path)
    assert new == f"before\n<!-- results: exact -->\n{TABLE}<!-- end of results -->\nafter"
    assert results.written(new, tmp_path) == new


def test_a_table_without_a_run_file_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no run file .*exact\.json"):
        results.written("<!-- results: exact -->\n<!-- end of results -->", tmp_path)
