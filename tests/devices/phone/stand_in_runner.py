#!/usr/bin/env python3
"""Stands in for edgec-runner on the loopback phone: its options, requests and events, with made-up times.

A phone whose ``says`` folder holds ``runner`` says that instead.
"""

import json
import os
import sys
import time
from pathlib import Path

PEAK, BASELINE = 50_000_000, 20_000_000
PLAIN_MS, ADAPTED_MS = 10.0, 12.0


def say(**fields: object) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def generated(count: int) -> None:
    gaps = [2.0] * (count - 1)
    ttft_ms = ADAPTED_MS if "--adapter" in sys.argv else PLAIN_MS
    say(event="generated", tokens=list(range(count)), ttft_ms=ttft_ms, token_ms=gaps, peak_rss_bytes=PEAK)


def main() -> None:
    wish = os.environ.get("STAND_IN", "")
    told = Path(os.environ.get("PHONE_SAYS", "/nowhere"), "runner")
    if told.is_file():
        sys.stdout.buffer.write(told.read_bytes())
        return
    if wish == "killed":
        os.kill(os.getpid(), 9)
    if wish == "garbage":
        print('\x00\xffWARNING: linker: unused DT entry\n{"event": "gener', flush=True)
        return
    if "--adapter" in sys.argv:
        Path(sys.argv[sys.argv.index("--adapter") + 1]).read_bytes()  # As the runner, it ends where there is none.
    print("WARNING: linker: a line that is nobody's business", flush=True)
    share = 0.0 if "drop" in sys.argv else 1.0
    say(event="loaded", load_ms=5.0, threads=2, resident_share=share, baseline_rss_bytes=BASELINE)
    for line in sys.stdin:
        verb, number, *_ = line.split()
        if verb == "pause":
            time.sleep(int(number) / 1e3)
        else:
            time.sleep(float(os.environ.get("STAND_IN_S", "0")))
            generated(int(number))


main()
