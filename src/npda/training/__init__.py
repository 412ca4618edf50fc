"""One training loop for every model: objectives and data are handed to it, it knows nothing about speech."""
