"""``edgec bench``: how fast and how large a bundle is on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    out: Annotated[Path | None, typer.Option(help="Write the records as JSONL here, and a plot beside it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Records and figures as one JSON object.")] = False,
) -> None:
    """Measure loads (cold, warm), time to first token, prefill, decode, latency percentiles and peak memory.

    Every job runs in a fresh process; the rest of the machine should be idle.

    For example:

    edgec bench tiny-llama-host.edgec --device host --out host.jsonl

    edgec bench tiny-llama-host.edgec --threads 1 --sustained 10 --out one-thread.jsonl
    """
    from edgec.runtime_py.bench import bench as measure
    from edgec.runtime_py.bench_console import progress, report

    shape = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "repetitions": repetitions, "warmups": warmups}
    with progress() as say:
        result = measure(bundle, device, **shape, threads=threads, sustained_minutes=sustained, out=out, say=say)
    report(result, json)
