"""Passes that change weights without changing any result, so that they round better."""
