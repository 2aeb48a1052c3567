"""Helpers of the equalising passes: find a decoder's residual stream, its value paths, and where scales may move."""
