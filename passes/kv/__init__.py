"""Passes on keys and values: the cache, and layers that share one."""
