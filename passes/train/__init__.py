"""Passes that make a graph trainable: fake quantisation and recovery adapters."""
