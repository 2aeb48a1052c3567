"""Helpers of kv_cache: the kernels that read and write a cache, and the states they need."""
