"""Passes that compute logits, and the layers before them, only for the tokens that need them."""
