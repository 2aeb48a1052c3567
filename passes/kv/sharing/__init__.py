"""For shared_kv: which layers may share, and what becomes of their projections."""
