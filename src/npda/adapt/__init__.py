"""npda adapt: from a domain's text to a tuned store and proof of what it gains."""
