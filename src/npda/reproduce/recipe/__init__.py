"""Recipes: YAML, checked name by name before anything runs."""
