"""npda reproduce: a recipe becomes stages, results, tables and a report."""
