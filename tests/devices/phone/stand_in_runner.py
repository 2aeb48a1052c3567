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


def say(**fields: object) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def generated(count: int) -> None:
    gaps = [2.0] * (count - 1)
    say(event="generated", tokens=list(range(count)), ttft_ms=10.0, token_ms=gaps, peak_rss_bytes=PEAK)


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
