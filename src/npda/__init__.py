"""npda: text-only domain adaptation for end-to-end speech translation."""
