"""Passes on keys and values: the KV cache, and layers that share one."""
