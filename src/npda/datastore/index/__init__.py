"""The index: which keys lie near a query, found without comparing them all."""
