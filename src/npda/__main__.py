"""``python -m npda``, for launchers such as torchrun."""

from npda.cli import main

main()
