"""Passes that prepare a graph for training: fake quantisation and low-rank adapters."""
