"""Runtimes that apps have already, run on edgec's artifacts as their packages bring them for this machine."""
