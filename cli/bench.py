"""``edgec bench``: how fast and how large a bundle is on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def bench(
    bundle: Annotated[Path, typer.Argument(help="The bundle folder, NAME.edgec.")],
    *,
    device: Annotated[str, typer.Option(help="host, adb:SERIAL, ios:UDID, sim:UDID or qemu.")] = "host",
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompt.")] = 128,
    new_tokens: Annotated[int, typer.Option(help="Tokens generated behind it.")] = 64,
    repetitions: Annotated[int, typer.Option(help="Measured generations, at least 5.")] = 5,
    warmups: Annotated[int, typer.Option(help="Generations before them that do not count.")] = 3,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the runtime's choice.")] = None,
    sustained: Annotated[float | None, typer.Option(metavar="MINUTES", help="Also record the speed over time.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Also say where the time goes, per operator.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the records as JSONL here, and a plot beside it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Records and figures as one JSON object.")] = False,
) -> None:
    """Measure loads (cold, warm), time to first token, prefill, decode, latency percentiles and peak memory.

    Every job runs in a fresh process; the rest of the machine should be idle.

    For example:

    edgec bench tiny-llama-host.edgec --device host --out host.jsonl

    edgec bench tiny-llama-host.edgec --threads 1 --sustained 10 --out one-thread.jsonl

    edgec bench tiny-llama-host.edgec --threads 2 --profile
    """
    from edgec.runtime_py.bench import bench as measure
    from edgec.runtime_py.bench_console import progress, report

    options: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "new_tokens": new_tokens,
        "repetitions": repetitions,
        "warmups": warmups,
        "threads": threads,
        "sustained_minutes": sustained,
    }
    with progress() as say:
        result = measure(bundle, device, profile=profile, out=out, say=say, **options)
    report(result, json)
