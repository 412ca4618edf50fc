"""Measurements with a bar: each prints a table and PASS or FAIL, and can leave its figures as JSON."""

import os

# Before torch and NumPy are there. Threads that spin on a busy core slow all ways down; NumPy's own would be uncounted.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
