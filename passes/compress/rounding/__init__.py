"""Serves the compressing passes: integers, tables and zeros for one matrix at a time."""
