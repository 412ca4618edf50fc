"""The package as others install it: a wheel in an environment of its own, far from this folder."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from npda import __version__

ROOT = Path(__file__).parents[1]
PATIENCE = 1_800  # seconds; the packages may have to be downloaded


def run(*command: object, cwd: Path) -> str:
    """What a command prints; it knows nothing of the sources here."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    return next(folder.glob("npda-*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_what_the_package_reads(wheel):
    """Every file of the sources but the tests, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = run("git", "ls-files", "src/npda", cwd=ROOT).splitlines()
    assert packed == {name.removeprefix("src/") for name in listed}


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "serve"])
def test_the_wheel_works_in_an_environment_of_its_own(wheel, extra, tmp_path):
    """Alone, and with what a server needs; versions are those of constraints.txt."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    asked = f"{wheel}[{extra}]" if extra else wheel
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", asked, cwd=tmp_path)
    run(python, "-m", "pip", "check", cwd=tmp_path)
    npda = tmp_path / "env" / "bin" / "npda"

    assert run(npda, "--version", cwd=tmp_path) == f"npda {__version__}\n"
    assert "parliament" in run(npda, "demo", "--help", cwd=tmp_path)
    assert "Everything works." in run(npda, "doctor", cwd=tmp_path)  # which translates a sentence
    if extra == "serve":
        assert "Nothing is wrong" in run(npda, "serve", "--check", cwd=tmp_path)
