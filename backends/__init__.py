"""Lowerings, one folder per backend."""
