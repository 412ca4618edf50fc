"""One module for each kind of model that is trained."""
