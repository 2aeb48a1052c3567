"""Passes that make a draft model or draft heads, which guess tokens for speculative decoding."""
