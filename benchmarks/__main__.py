"""``python -m benchmarks``: see ``harness/umbrella.py`` and docs/benchmarking.md."""

import sys

from benchmarks.harness.umbrella import main

sys.exit(main())
