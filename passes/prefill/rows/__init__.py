"""Helpers of prefill_skip: which dimension holds tokens, and which operators work row by row."""
