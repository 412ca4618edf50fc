"""Digests and small JSON records."""

import hashlib
from pathlib import Path

import pytest

from npda.io.digests import file_digest, short_digest
from npda.io.errors import InputError
from npda.io.records import as_json, read_record, write_record


def test_a_digest_is_that_of_the_bytes(tmp_path: Path):
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert file_digest(tmp_path / "a") == hashlib.sha256(content).hexdigest()
    assert short_digest(tmp_path / "a") == hashlib.sha256(content).hexdigest()[:16]
    with pytest.raises(OSError, match="No such file"):
        file_digest(tmp_path / "none")
    with pytest.raises(InputError, match=r"none cannot be read: No such file"):
        short_digest(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"[1]", b'"a"', b'{"a": ', b"\xff"])
def test_a_damaged_record_is_an_empty_one(tmp_path: Path, content: bytes):
    path = tmp_path / "record.json"
    assert read_record(path) == {}
    path.write_bytes(content)
    assert read_record(path) == {}


def test_a_record_comes_back_as_json_gives_it(tmp_path: Path):
    value = {"a": (1, 2), "ä": {3: None}}
    write_record(tmp_path / "folder" / "record.json", value)
    assert read_record(tmp_path / "folder" / "record.json") == as_json(value) == {"a": [1, 2], "ä": {"3": None}}
