"""Perplexity and tasks: how good a bundle's answers are."""
