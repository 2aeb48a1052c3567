"""Passes that compute only the rows whose logits are wanted."""
