"""Models and the machine: utterances of many requests, decoded in common batches."""
