"""The datastore: decoder states of a domain's text as keys, the tokens that follow as values (section 2.2)."""
