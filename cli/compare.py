"""``edgec compare`` shows two benchmark runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    a: Annotated[Path, typer.Argument(help="Records of the run to compare with (.jsonl).")],
    b: Annotated[Path, typer.Argument(help="Records of the run compared (.jsonl).")],
    *,
    allow: Annotated[list[str] | None, typer.Option(help="A field in which the runs may differ; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare two runs of edgec bench: ratios of medians with their spread.

    Runs that differ in device, machine, model, tokens, threads or runtime are refused; recipes may differ.

    For example:

    edgec compare float.jsonl int4.jsonl

    edgec compare one-thread.jsonl two-threads.jsonl --allow threads
    """
    from edgec.runtime_py.bench.compare import compare as compare_runs
    from edgec.runtime_py.bench.compare import report

    report(compare_runs(a, b, allow or ()), json)
