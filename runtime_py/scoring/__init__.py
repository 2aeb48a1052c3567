"""Scores and embeddings of texts."""
