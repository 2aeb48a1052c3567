"""The parts of ``benchmarks/quality.py``, which measures the cost of compression."""
