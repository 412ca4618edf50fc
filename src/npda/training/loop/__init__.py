"""The training loop: batches, updates, checkpoints, logs."""
