"""The parts of ``examples/train_stories.py``, one idea per file."""
