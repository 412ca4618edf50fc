"""Choosing k, λ, T and small networks on held-out sentences."""
