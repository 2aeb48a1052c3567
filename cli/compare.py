"""``edgec compare`` shows measurements or bundles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edgec.runtime_py.evaluate.reference import ReferenceModel


def compare(
    subjects: Annotated[list[Path], typer.Argument(help="Two records of edgec bench (.jsonl), or bundles.")],
    *,
    allow: Annotated[list[str] | None, typer.Option(help="A field in which runs may differ; repeatable.")] = None,
    text: Annotated[Path | None, typer.Option(help="For bundles: a UTF-8 text to measure their quality on.")] = None,
    reference: Annotated[str | None, typer.Option(help="For bundles: the float model; default: their source.")] = None,
    tokens: Annotated[int, typer.Option(help="For bundles: the most tokens of the text to use.")] = 2048,
    threads: Annotated[int | None, typer.Option(help="For bundles: CPU threads.")] = None,
    chart: Annotated[Path | None, typer.Option(help="For bundles: write quality against size here (SVG).")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare two runs of edgec bench, or measure any number of bundles: size, quality and speed in one table.

    For runs: ratios of medians with their spread. Runs that differ in device, machine, model, tokens, threads or
    runtime are refused; recipes may differ.

    Examples:
    edgec compare float.jsonl int4.jsonl

    edgec compare one-thread.jsonl two-threads.jsonl --allow threads

    edgec compare kept.edgec lut4.edgec --text held-out.txt --reference smollm2.gguf

    edgec compare float.edgec 4bit.edgec 2bit.edgec --text held-out.txt --chart quality.svg
    """
    from edgec.runtime_py.evaluate.comparison import compare_runs_or_bundles

    compare_runs_or_bundles(subjects, allow or (), text, reference, tokens, threads, chart, json, _opened)


def _opened(name: str, images: bool) -> ReferenceModel:
    # Records of runs are compared without torch.
    from edgec.exporter.stages.stored_reference import open_reference

    return open_reference(name, images)
