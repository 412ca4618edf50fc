"""The package as others install it: a wheel in an environment of its own, far from this folder."""

import os
import re
import shutil
import subprocess
import sys
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


def installed(wheel: Path, extra: str, folder: Path, python: str = sys.executable) -> Path:
    """npda's command in a new environment, with the versions of constraints.txt."""
    run(python, "-m", "venv", folder / "env", cwd=folder)
    own = folder / "env" / "bin" / "python"
    asked = f"{wheel}[{extra}]" if extra else wheel
    run(own, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", asked, cwd=folder)
    run(own, "-m", "pip", "check", cwd=folder)
    return folder / "env" / "bin" / "npda"


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "serve", "cluster,docs,serve,vad"])
def test_the_wheel_works_in_an_environment_of_its_own(wheel, extra, tmp_path):
    """Alone, with what a server needs, and with all that is optional."""
    npda = installed(wheel, extra, tmp_path)
    assert run(npda, "--version", cwd=tmp_path) == f"npda {__version__}\n"
    assert "parliament" in run(npda, "demo", "--help", cwd=tmp_path)
    told = run(npda, "doctor", cwd=tmp_path)
    assert "Everything works." in told  # which translates a sentence
    for name in filter(None, extra.split(",")):
        assert re.search(rf"\[{name}\] +installed", told)
    if "serve" in extra:
        assert "Nothing is wrong" in run(npda, "serve", "--check", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_wheel_works_with_every_python(wheel, version, tmp_path):
    """As far as this machine has them."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", "import venv"], capture_output=True).returncode != 0:
        pytest.skip(f"Python {version} is not installed")
    if version == "{}.{}".format(*sys.version_info):
        pytest.skip("the other tests have this one")
    assert "Everything works." in run(installed(wheel, "", tmp_path, python), "doctor", cwd=tmp_path)
