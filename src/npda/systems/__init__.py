"""Every system of the paper, as data."""
