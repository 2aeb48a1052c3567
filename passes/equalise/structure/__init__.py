"""Serves the equalising passes: a decoder's residual stream, and the ways its values take."""
