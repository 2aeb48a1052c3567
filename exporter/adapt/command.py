"""``edgec adapt`` at the terminal: options in, a progress bar with losses, then the folder's path and the result."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn

from edgec.durations import time_left
from edgec.exporter.adapt.adapt import Adapted, adapt
from edgec.exporter.adapt.settings import settings_from
from edgec.exporter.progress import ProgressLines
from edgec.runtime_py.adapters.peft_settings import ADAPTER_CONFIG
from edgec.terminal import make_console

if TYPE_CHECKING:
    from edgec.exporter.adapt.loop import TrainingEvent, TrainingListener

_DECIMALS = 4


@dataclass(frozen=True)
class AdaptOptions:
    """The command line; None means not given.

    Attributes:
        model: hub id or folder.
        recipe: name or TOML file.
        text: files, folders or data sets.
        json: machine-readable output.
        job: further arguments of ``adapt``.
        settings: of training.
    """

    model: str
    recipe: str
    text: tuple[str, ...]
    json: bool
    job: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def run_adapt(options: AdaptOptions) -> None:
    """Adapt a model and print the result.

    Raises:
        EdgecError: see ``edgec.exporter.adapt``.
    """
    settings = settings_from(options.settings)
    with _listener(options.json) as listener:
        done = adapt(
            options.model,
            recipe=options.recipe,
            text=options.text,
            settings=settings,
            progress=listener,
            **options.job,
        )
    if _first_process():
        print(json.dumps(_summary(done)) if options.json else _summary_text(done))


def _first_process() -> bool:
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def _summary(done: Adapted) -> dict[str, Any]:
    first, last = done.curve[0], done.curve[-1]
    return {
        "model": str(done.path),
        **({"adapter": str(done.adapter)} if done.adapter else {}),
        "obtained": "measured",
        "tokens": last.tokens,
        "held_out_nats_before": first.held_out,
        "held_out_nats": last.held_out,
        "baseline_nats": done.baseline.held_out,
        "teacher_kl_nats_before": first.divergence,
        "teacher_kl_nats": last.divergence,
    }


def _summary_text(done: Adapted) -> str:
    first, last = done.curve[0], done.curve[-1]
    change = f"{first.held_out:.{_DECIMALS}f} -> {last.held_out:.{_DECIMALS}f} nats per token"
    lines = [
        f"{done.path}",
        f"  held-out loss  {change}, perplexity {math.exp(min(last.held_out, 700)):.2f} (measured)",
        f"  {done.baseline.name:<15}{done.baseline.held_out:.{_DECIMALS}f} nats per token (measured)",
        f"  tokens seen    {last.tokens:,}",
    ]
    if first.divergence is not None and last.divergence is not None:
        apart = f"{first.divergence:.{_DECIMALS}f} -> {last.divergence:.{_DECIMALS}f} nats per token (measured)"
        lines.insert(2, f"  KL to teacher  {apart}")
    return "\n".join([*lines, f"  next           {_next(done)}"])


def _next(done: Adapted) -> str:
    if done.adapter is not None:
        return f"edgec run BUNDLE --adapter {done.adapter}"
    is_adapter = (done.path / ADAPTER_CONFIG).is_file()
    return f"edgec adapter BUNDLE {done.path}" if is_adapter else f"edgec export {done.path}"


@contextmanager
def _listener(as_json: bool) -> Iterator[TrainingListener]:
    """A progress bar on stderr, lines where stderr is not a terminal, or one JSON object per step."""
    if as_json:
        yield lambda event: print(json.dumps({"progress": vars(event)}), file=sys.stderr, flush=True)
        return
    console = make_console(stderr=True)
    if not console.is_terminal:
        lines = ProgressLines(lambda line: print(line, file=sys.stderr, flush=True))
        lines.tell("adapt", "preparing")
        yield lambda event: lines.tell("train", _line(event))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("adapt", total=1.0, status="preparing")
        yield lambda event: bar.update(task, completed=event.step / event.steps, status=_line(event))


def _line(event: TrainingEvent) -> str:
    return (
        f"step {event.step}/{event.steps}  loss {event.loss:.4f}  held-out {event.held_out:.4f} nats  "
        f"{event.tokens_per_s:,.0f} tokens/s  about {time_left(event.eta_s)} to go"
    )
