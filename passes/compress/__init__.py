"""Passes that store weights in fewer bits."""
