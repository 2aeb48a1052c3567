"""MIL operators by family: each a small function that takes MIL's inputs by MIL's names."""
