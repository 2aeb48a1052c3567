"""The result file of the generated bench app: the records of a run, with made-up figures."""

from __future__ import annotations

import json
from typing import Any

FACTS = {
    "system": "iOS Version 27.0 (Build 24A335), thermal state nominal",
    "cpu": "iPhone17,1",
    "cores": 6,
    "memory_bytes": 8_000_000_000,
    "governor": None,
    "clock_mhz": None,
    "load_average": None,
    "temperature_c": None,
}


def app_result(device: str) -> str:
    """The records of one run as JSON lines."""
    key = {"schema_version": 1, "device": device, "machine": "iPhone17,1 x6", "model": "tiny", "model_parameters": 1}
    key |= {"prompt_tokens": 20, "new_tokens": 4, "threads": 6, "runtime": "executorch 1.5.1, pte, Swift package"}
    subject = {"name": "tiny", "digest": "d", "recipe": "float", "target": "iphone-16-pro-cpu"}
    common = {"schema_version": 1, "run": "r", "comparability": key}
    common |= {"subject": {**subject, "artifact_bytes": 7, "context": 128}, "obtained": "measured: in the app"}
    head = {"kind": "run", "started": "2026-11-21T00:00:00Z", "edgec_version": "0.1.0", "warmups": 3, "repetitions": 5}
    head |= {"ignore_eos": True, "before": FACTS, "after": FACTS, "energy_j": None}
    load = {"kind": "load", "state": "warm", "load_ms": 100.0, "resident_share": None}
    memory = {"kind": "memory", "peak_rss_bytes": 2_000_000, "baseline_rss_bytes": 1_000_000}
    lines: list[dict[str, Any]] = [head, memory, load, load, load, *(_repetition(index) for index in range(5))]
    return "".join(json.dumps(common | line) + "\n" for line in lines)


def _repetition(index: int) -> dict[str, Any]:
    speeds = {"ttft_ms": 50.0, "prefill_tokens_per_s": 400.0, "decode_tokens_per_s": 100.0, "token_ms": [10.0] * 3}
    return {"kind": "repetition", "index": index, **speeds, "tokens": 4, "finish_reason": "length"}
