"""The command ``edgec eval``: on a text, or on tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edgec.bundle.limited_json import JsonKind, read_object
from edgec.bundle.replaceable import check_replaceable_files
from edgec.errors import InputError
from edgec.runtime_py.evaluate.console import report
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.evaluate.reference import OpenReference
from edgec.runtime_py.evaluate.tasks import evaluate_tasks, task_table
from edgec.terminal import make_console

_KIND = JsonKind("This is not an evaluation.", "name another --out", "E123")


@dataclass(frozen=True)
class EvalOptions:
    """The options of ``edgec eval``."""

    bundle: Path
    text: Path | None
    tokens: int
    reference: str | None
    tasks: tuple[str, ...]
    task_folder: Path | None
    limit: int | None
    threads: int | None
    out: Path | None
    json: bool
    adapter: Path | None = None


def run_eval(options: EvalOptions, opens: OpenReference | None = None) -> None:
    """Evaluate on a text or on tasks and report; ``opens`` as in ``evaluate``.

    Raises:
        InputError: E156, neither or both were given; E123, ``out`` holds something else; else as ``evaluate`` and
            ``evaluate_tasks``.
        ToolError: E310, tasks without lm-eval.
    """
    if (options.text is None) == (not options.tasks):
        raise InputError(
            "Give a text or tasks.", where="edgec eval", fix="add --text FILE, or --tasks NAME", code="E156"
        )
    if options.out is not None:
        plots = (options.out.with_suffix(".svg"),) if options.text is not None else ()
        check_replaceable_files((options.out, *plots), _holds_results, "evaluation")
    if options.text is not None:
        _on_text(options, options.text, opens)
    else:
        _on_tasks(options)


def _holds_results(path: Path) -> bool:
    """Whether a file holds an evaluation: of a text, or metrics by task as lm-eval names them."""
    try:
        results = read_object(path, _KIND)
    except InputError:
        return False
    by_task = [isinstance(metrics, dict) and "alias" in metrics for metrics in results.values()]
    return {"schema_version", "obtained", "bundle"} <= results.keys() or (bool(by_task) and all(by_task))


def _on_text(options: EvalOptions, text: Path, opens: OpenReference | None) -> None:
    with make_console(stderr=True).status("loading") as status:
        result = evaluate(
            options.bundle,
            text,
            tokens=options.tokens,
            reference=options.reference,
            threads=options.threads,
            adapter=options.adapter,
            say=status.update,
            opens=opens,
        )
    report(result, options.out, options.json)


def _on_tasks(options: EvalOptions) -> None:
    places = (options.task_folder, options.limit, options.threads, options.adapter)
    results = evaluate_tasks(options.bundle, options.tasks, *places)
    text = json.dumps(results, indent=2, default=str)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if options.json:
        print(text)
    else:
        make_console().print(task_table(results))
