"""``python -m tests.devices.adb.stand_in_edgec WORDS``: edgec's command line, whose phone runner is the stand-in.

``STAND_IN_LIBRARY`` is a file that travels with the runner. Standard error says what is being done, line by line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from edgec.cli.app import run_cli
from edgec.devices.adb import transport
from edgec.devices.runner.files import RunnerPackage

STAND_IN = Path(__file__).parents[1] / "phone" / "stand_in_runner.py"
FILES = {"runner": STAND_IN, "library.so": Path(os.environ["STAND_IN_LIBRARY"])}

if __name__ == "__main__":
    # A shell's background job ignores SIGINT, and so would every process under it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    vars(transport)["arm64_runner"] = lambda say: RunnerPackage(FILES, ("./runner",))
    sys.exit(run_cli(sys.argv[1:]))
