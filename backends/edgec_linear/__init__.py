"""Lower linear layers of few bits to edgec's own kernels."""
