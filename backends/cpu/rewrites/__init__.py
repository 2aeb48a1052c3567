"""Rewrites of a graph that XNNPACK asks for."""
