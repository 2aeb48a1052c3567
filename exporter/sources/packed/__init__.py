"""Quantised checkpoints: how each format packs integers, and the groups that they become."""
