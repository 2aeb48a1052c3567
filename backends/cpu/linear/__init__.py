"""Matrices of few bits for edgec's own kernels: their bytes, their delegates, read back."""
