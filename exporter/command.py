"""``edgec export`` at the terminal: options and edgec.toml in, progress, then the ladder and the bundle's path."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.durations import time_left
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Event, Listener, ProgressLines
from edgec.exporter.resolve.project_file import complete_options, find_project

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def run_export(options: ExportOptions, as_json: bool) -> None:
    """Export for every target of the project, and print a summary of each bundle.

    Raises:
        EdgecError: see ``edgec.export``.
    """
    began = time.monotonic()
    completed = complete_options(options, find_project())  # Refuses a missing MODEL before torch is imported.
    from edgec.exporter.api import export_bundle

    for each in completed:
        with _listener(as_json) as listener:
            path = export_bundle(replace(each, progress=listener))
        ended = time.monotonic()
        _print_summary(path, ended - began, as_json)
        began = ended


@contextmanager
def _listener(as_json: bool) -> Iterator[Listener]:
    """A progress bar on stderr, lines where stderr is not a terminal, or one JSON object per event."""
    if as_json:
        yield _json_event
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from edgec.terminal import make_console

    console = make_console(stderr=True)
    if not console.is_terminal:
        lines = ProgressLines(_to_stderr)
        yield lambda event: _to_stderr(event.detail) if event.noted else lines.tell(event.stage, _status(event))
        return
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[eta]}"), console=console) as bar:
        task = bar.add_task("resolve", total=1.0, eta="")
        yield lambda event: _show(bar, task, event)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(bar: Progress, task: TaskID, event: Event) -> None:
    if event.noted:
        bar.console.print(event.detail, highlight=False, soft_wrap=True)
        return
    eta = f"about {time_left(event.eta_s)} to go" if event.eta_s is not None and event.stage != "done" else ""
    detail = "from the cache" if event.cached else event.detail
    bar.update(task, completed=event.overall, description=event.stage, eta=f"{eta}  {detail}")


def _status(event: Event) -> str:
    """How far an export is, for a line of a log."""
    if event.stage == "done":
        return ""
    eta = f"about {time_left(event.eta_s)} to go (estimated)" if event.eta_s is not None else ""
    detail = "from the cache" if event.cached else event.detail
    return "  ".join(filter(None, [f"{event.overall:4.0%}", eta, detail]))


def _json_event(event: Event) -> None:
    shown: dict[str, Any] = {"stage": event.stage, "overall": round(event.overall, 3), "eta_s": event.eta_s}
    shown |= {"cached": event.cached, **({"note": event.detail} if event.noted else {})}
    print(json.dumps({"progress": shown}), file=sys.stderr, flush=True)


def _print_summary(path: Path, waited_s: float, as_json: bool) -> None:
    from edgec.bundle.folder import read_manifest
    from edgec.exporter.report.summary import print_summary, summary_json

    manifest = read_manifest(path)
    if as_json:
        print(json.dumps({"bundle": str(path), "waited_s": round(waited_s, 3), **summary_json(manifest)}))
    else:
        print_summary(path, manifest, waited_s)
