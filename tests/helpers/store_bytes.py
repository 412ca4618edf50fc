"""Whether two stores are the same to the last byte."""

import hashlib
from pathlib import Path


def contents(path: Path) -> dict[str, str]:
    """Every file of a folder with the digest of its bytes."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
