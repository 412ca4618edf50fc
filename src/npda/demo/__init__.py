"""npda demo: the whole method on the embedded corpus."""
