"""Serves kv_cache: the states it adds, and the kernels that read and write them."""
