"""A loopback phone to experiment with: ``python -m tests.devices.phone --port 15555``."""

from __future__ import annotations

import argparse
import signal
import tempfile
from pathlib import Path

from tests.devices.phone.phone import LoopbackPhone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=15555)
    port = parser.parse_args().port
    with tempfile.TemporaryDirectory() as folder, LoopbackPhone(Path(folder), port=port).plugged_in() as phone:
        print(f"adb:{phone.serial}; Ctrl-C ends it", flush=True)
        signal.sigwait([signal.SIGINT, signal.SIGTERM])


if __name__ == "__main__":
    main()
