"""Regions of a graph that become delegates: chosen, outlined, replaced."""
