"""Helpers of shared_kv: which layers may share, and how their projections change."""
