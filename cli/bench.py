"""``edgec bench`` measures how fast and how large a bundle is on devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def bench(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    device: Annotated[
        list[str] | None, typer.Option(help="host (default), adb:SERIAL, ios:UDID, sim:UDID or qemu; may be repeated.")
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompt.")] = 128,
    new_tokens: Annotated[int, typer.Option(help="Tokens generated after it.")] = 64,
    repetitions: Annotated[int, typer.Option(help="Measured generations, at least 5.")] = 5,
    warmups: Annotated[int, typer.Option(help="Generations before them, not counted.")] = 3,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the cores that shorten a step.")] = None,
    cores: Annotated[str | None, typer.Option(metavar="LIST", help="CPU cores to stay on, like 4-7.")] = None,
    cool_down: Annotated[float, typer.Option(metavar="SECONDS", help="Pause before each repetition.")] = 0.0,
    max_temperature: Annotated[float, typer.Option(metavar="CELSIUS", help="Phones: hottest start of a job.")] = 37.0,
    heat_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest wait for it to cool.")] = 900.0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the files on the phone for the next run.")] = False,
    sustained: Annotated[float | None, typer.Option(metavar="MINUTES", help="Also record the speed over time.")] = None,
    adapter: Annotated[Path | None, typer.Option(help="Add what edgec adapter made; apps add none.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Also measure the time of each operator.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the records as JSONL here, and a plot next to it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Records and figures as one JSON object.")] = False,
) -> None:
    """Measure loads (cold, warm), time to first token, prefill, decode, latency percentiles and peak memory.

    Every job runs in a fresh process; the rest of the device should be idle. A phone's shell runs bundles for the CPU;
    a bundle for its GPU or NPU is measured by the app that 'edgec embed' writes. Pushed files are removed. Speeds are
    kept in the cache, for edgec plan to learn from.

    Examples:
    edgec bench tiny-stories-host.edgec --device host --out host.jsonl

    edgec bench tiny-stories-android.edgec --device adb:8A3X1 --device adb:9B7Q2 --cool-down 5 --cores 4-7

    edgec bench tiny-stories-host.edgec --threads 2 --profile
    """
    from edgec.devices.transport import Conditions
    from edgec.runtime_py.bench.console import progress, report
    from edgec.runtime_py.bench.devices import bench_devices

    counts = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "repetitions": repetitions, "warmups": warmups}
    options = {"threads": threads, "cores": cores, "cool_down_s": cool_down, "profile": profile}
    conditions = Conditions(max_temperature_c=max_temperature, heat_timeout_s=heat_timeout, keep=keep)
    with progress() as say:
        outcomes = bench_devices(
            bundle,
            device or ["host"],
            conditions=conditions,
            out=out,
            say=say,
            sustained_minutes=sustained,
            adapter=adapter,
            **counts,
            **options,
        )
    report(outcomes, json)
