"""Names of the tables of cosines and sines that turn samples into spectra."""

from __future__ import annotations

SPECTRUM = "edgec_spectrum"
"""How the names of such tables begin: 8 bits would cost a spectrum its quiet parts, and nobody learnt them."""
