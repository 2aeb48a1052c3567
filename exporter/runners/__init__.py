"""Artifacts in runtimes that apps have already: rungs of the parity ladder."""
