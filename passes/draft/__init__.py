"""Passes that make models which guess tokens for speculation."""
