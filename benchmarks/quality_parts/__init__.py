"""What compression costs, measured: the parts of ``benchmarks/quality.py``."""
