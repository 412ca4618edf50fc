"""Settings every test shares; OpenMP must be told before torch is imported."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from hypothesis import settings

# A busy machine is slow; that is no fault of the code under test.
settings.register_profile("npda", deadline=None)
settings.load_profile("npda")
