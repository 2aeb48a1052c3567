"""Exact passes that change weights so that they round better."""
