"""Scores, significance tests, similarity of states; tuning/ chooses parameters on held-out sentences."""
