"""Artifacts that are functions: inputs prepared, called, results named."""
