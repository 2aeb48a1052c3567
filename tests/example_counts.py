"""How many examples hypothesis tries of a property; which ones, conftest.py says."""

from __future__ import annotations

import os

ALL = os.environ.get("EDGEC_TEST_EXAMPLES") == "all"


def examples(count: int) -> int:
    """``count`` in ``make test-all``, a quarter of them otherwise."""
    return count if ALL else -(-count // 4)
