"""Beam search over any backbone, and the fusions that change its next-token probabilities."""
