"""``edgec export`` at the terminal: options and edgec.toml in, a progress bar, the ladder and the bundle's path out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from edgec.errors import InputError
from edgec.exporter.progress import Event, Listener, ProgressLines
from edgec.exporter.resolve.project_file import Project, find_project, overlay, require_model


@dataclass(frozen=True)
class ExportOptions:
    """The command line; None means not given."""

    model: str | None
    target: str | None
    recipe: str | None
    out: Path | None
    budgets: tuple[str, ...]
    json: bool
    settings: dict[str, Any] = field(default_factory=dict)


def run_export(options: ExportOptions) -> None:
    """Export for every target of the project; prints a summary of each bundle.

    Raises:
        EdgecError: see ``edgec.export``.
    """
    project = overlay(find_project(), _given(options))
    model = require_model(project)
    targets = project.targets or ("host",)
    out = project.out if len(targets) == 1 else None
    for target in targets:
        path = _export(options, project, model, target, out)
        _summary(path, options.json)


def _given(options: ExportOptions) -> Project:
    return Project(
        model=options.model,
        targets=(options.target,) if options.target else (),
        recipe=options.recipe,
        out=str(options.out) if options.out else None,
        budgets=dict(map(_budget, options.budgets)),
    )


def _budget(text: str) -> tuple[str, float]:
    name, _, limit = text.partition("=")
    try:
        return name, float(limit)
    except ValueError as error:
        raise InputError(
            what=f"{text!r} is no budget",
            where="--budget",
            fix="write NAME=LIMIT, for example kl_mean=0.1",
            code="E115",
        ) from error


def _export(options: ExportOptions, project: Project, model: str, target: str, out: str | None) -> Path:
    from edgec.exporter.api import export

    with _listener(options.json) as listener:
        return export(
            model,
            target=target,
            recipe=project.recipe,
            out=out,
            budgets=project.budgets,
            progress=listener,
            **options.settings,
        )


@contextmanager
def _listener(as_json: bool) -> Iterator[Listener]:
    """A progress bar on stderr, lines where it is no terminal, or one JSON object per event."""
    if as_json:
        yield _json_event
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = ProgressLines(lambda line: print(line, file=sys.stderr, flush=True))
        yield lambda event: lines.tell(event.stage, _told(event))
        return
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[eta]}"), console=console) as bar:
        task = bar.add_task("resolve", total=1.0, eta="")
        yield lambda event: _show(bar, task, event)


def _show(bar: Progress, task: TaskID, event: Event) -> None:
    eta = f"about {event.eta_s:.0f} s to go" if event.eta_s is not None and event.stage != "done" else ""
    detail = "from the cache" if event.cached else event.detail
    bar.update(task, completed=event.overall, description=event.stage, eta=f"{eta}  {detail}")


def _told(event: Event) -> str:
    """Where an export stands, for a line of a log."""
    if event.stage == "done":
        return ""
    eta = f"about {event.eta_s:.0f} s to go (estimated)" if event.eta_s is not None else ""
    detail = "from the cache" if event.cached else event.detail
    return "  ".join(filter(None, [f"{event.overall:4.0%}", eta, detail]))


def _json_event(event: Event) -> None:
    shown = {"stage": event.stage, "overall": round(event.overall, 3), "eta_s": event.eta_s, "cached": event.cached}
    print(json.dumps({"progress": shown}), file=sys.stderr, flush=True)


def _summary(path: Path, as_json: bool) -> None:
    from edgec.bundle.folder import read_manifest
    from edgec.exporter.report.summary import print_summary, summary_json

    manifest = read_manifest(path)
    if as_json:
        print(json.dumps({"bundle": str(path), **summary_json(manifest)}))
    else:
        print_summary(path, manifest)
