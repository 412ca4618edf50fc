"""Corpora: manifests of speech, bilingual text, published collections, the embedded corpus."""
