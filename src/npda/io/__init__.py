"""Files, locks, digests, progress, errors: what every other room stands on."""
