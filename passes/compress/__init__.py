"""Passes that store weights in fewer bits, or make some of them zero."""
