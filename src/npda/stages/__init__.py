"""Resumable stages of work: what is done is kept, what has changed is done again."""
