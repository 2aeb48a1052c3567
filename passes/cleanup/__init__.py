"""Passes that remove what tracing leaves behind, and compute constants once."""
