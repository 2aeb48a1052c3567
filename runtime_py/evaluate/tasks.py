"""Tasks of lm-eval (an optional extra) on a bundle: log-likelihood of a continuation, and text up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgec.bundle.encoding import token_ids
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.runtime_py.decoding.forced_text import continuation_score
from edgec.runtime_py.model import Model, load
from edgec.terminal import WordTable

MAX_GEN_TOKENS = 256


def evaluate_tasks(
    bundle: Path | str,
    tasks: Sequence[str],
    task_folder: Path | None = None,
    limit: int | None = None,
    threads: int | None = None,
    adapter_file: Path | None = None,
) -> dict[str, Any]:
    """Run tasks of lm-eval.

    Args:
        bundle: the bundle folder.
        tasks: names of tasks; lm-eval fetches their data.
        task_folder: a folder of more tasks, as YAML files.
        limit: the most examples per task.
        threads: CPU threads of the runtime.
        adapter_file: the file of an adapter for this bundle, which is added.

    Returns:
        The metrics of each task as lm-eval names them, with standard errors, by task.

    Raises:
        ToolError: E310, lm-eval is not installed.
        InputError: E166, no such task; E155 not a decoder; E695 or E696, the adapter is at fault.
    """
    _require_lm_eval()
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(task_folder) if task_folder else None)
    unknown = sorted(set(tasks) - set(manager.all_tasks))
    if unknown:
        raise InputError(
            f"lm-eval has no task {unknown[0]!r}.",
            where="--tasks",
            fix="see the names with: lm-eval ls tasks; add your own with --task-folder",
            code="E166",
        )
    model = load(bundle, threads)
    model.adapter = adapter_file
    outcome = simple_evaluate(model=adapter(model), tasks=list(tasks), limit=limit, task_manager=manager)
    return dict(outcome["results"])


def task_table(results: dict[str, Any]) -> WordTable:
    """A table of every task's metrics."""
    table = WordTable(caption="measured, by lm-eval")
    for column in ("task", "metric", "value"):
        table.add_column(column)
    for task, metrics in results.items():
        for name, value in metrics.items():
            if isinstance(value, int | float):
                table.add_row(task, name, f"{value:.4g}")
    return table


def _require_lm_eval() -> None:
    if find_spec("lm_eval") is None:
        raise ToolError(
            "Tasks need lm-eval, which is not installed.",
            where="--tasks",
            fix=f"install it with: {install_command('tasks')}",
            code="E310",
        )


def adapter(model: Model) -> Any:
    """Make an ``lm_eval.api.model.LM`` of the bundle.

    Raises:
        ToolError: E310, lm-eval is not installed.
    """
    _require_lm_eval()
    from lm_eval.api.model import TemplateLM

    class BundleLM(TemplateLM):  # type: ignore[misc, unused-ignore]
        """A model for lm-eval that scores token by token on the bundle's KV cache, one request at a time."""

        tokenizer = model.tokenizer

        @property
        def eot_token_id(self) -> int:
            return min(model.eos)

        @property
        def prefix_token_id(self) -> int:
            bos = model.tokenizer.bos_token_id
            return self.eot_token_id if bos is None else bos

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            special = add_special_tokens is not False
            return token_ids(model.tokenizer, string, special=special)

        def _loglikelihood_tokens(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
            return [continuation_score(model.session, context, rest) for _, context, rest in requests]

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [rolling_score(model, request.args[0], self.prefix_token_id) for request in requests]

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [generate_until(model, *request.args) for request in requests]

    return BundleLM()


def rolling_score(model: Model, text: str, prefix: int) -> float:
    """Log-likelihood in nats of a whole text, in windows of the context; every token is predicted once."""
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    ids = token_ids(model.tokenizer, text, special=False)
    windows = get_rolling_token_windows(ids, prefix, model.session.limits.context, 1)
    return sum(continuation_score(model.session, *window)[0] for window in map(make_disjoint_window, windows))


def generate_until(model: Model, prompt: str, options: dict[str, Any]) -> str:
    """Generate text after ``prompt`` up to a stop string, with lm-eval's option names."""
    until = options.get("until") or ()
    stops = [until] if isinstance(until, str) else list(until)
    new_tokens = int(options.get("max_gen_toks", MAX_GEN_TOKENS))
    room = max(1, model.session.limits.context - new_tokens)
    sampling = {name: options[name] for name in ("temperature", "top_k", "top_p", "min_p") if name in options}
    if not options.get("do_sample", float(sampling.get("temperature", 0)) > 0):
        sampling = {}
    return model.generate(model.encode(prompt)[-room:], max_new_tokens=new_tokens, stop=stops, **sampling).text
