"""Nearest neighbours in the beam: the fusion, its combiners and its published variants."""
