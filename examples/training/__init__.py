"""The parts of ``examples/train_example.py``, one idea per file."""
