"""Helpers of the compressing passes: round, tabulate or prune one matrix at a time."""
