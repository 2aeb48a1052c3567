"""Dimensions, parameters and states of a model, found on its skeleton without weights."""
