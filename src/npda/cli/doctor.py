"""npda doctor: what is installed, and whether it works."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import typer

from npda.cli.options import AsJson

if TYPE_CHECKING:
    from npda.checkup import Machine, Sample


def doctor(json: AsJson = False) -> None:
    """Check this installation: versions, cores, accelerator, extras, caches, and a translation with a known result.

    The exit code is 1 if the model that comes with npda does not translate as it should.

    Examples:

        npda doctor

        npda doctor --json
    """
    from npda.checkup import examine, try_model

    machine, sample = examine(), try_model()
    if json:
        import json as json_

        content = dataclasses.asdict(machine) | {"cache": str(machine.cache)}
        content |= {"sample": dataclasses.asdict(sample) | {"is_right": sample.is_right}}
        print(json_.dumps(content, ensure_ascii=False))
    else:
        _show(machine, sample)
    if not sample.is_right:
        raise typer.Exit(1)


def _show(machine: Machine, sample: Sample) -> None:
    libraries = ", ".join(f"{name} {version or 'missing'}" for name, version in machine.libraries.items())
    rows = [
        ("npda", f"{machine.npda}, Python {machine.python}, {machine.system}"),
        ("libraries", libraries),
        ("cores", f"{machine.cores} that npda may use"),
        ("accelerator", machine.accelerator or "none: npda computes on the processor"),
        *(
            (f"[{extra.name}]", f"not installed: {', '.join(extra.missing)}" if extra.missing else "installed")
            for extra in machine.extras
        ),
        ("caches", f"{machine.cache}, {machine.free / 1e9:.0f} GB free"),
        ("heard", sample.said),
        ("translated", sample.found if sample.is_right else f"{sample.found} (should be: {sample.known})"),
    ]
    for name, value in rows:
        print(f"{name:<12} {value}")
    if sample.is_right:
        print("\nEverything works.")
    else:
        print(
            "\nThe model that comes with npda translates differently here. Reinstall npda with the versions in "
            "constraints.txt; if that does not help, please report it with the lines above."
        )
