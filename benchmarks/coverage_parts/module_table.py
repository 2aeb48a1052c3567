"""The part of docs/models.md about encoders and vision models, written from their outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.coverage_parts.check import Outcome
from benchmarks.coverage_parts.check_module import MODULE_COLUMNS
from benchmarks.coverage_parts.table import cell, plain
from benchmarks.coverage_parts.tiny_modules import MODULES, module_types

_TITLES = {
    "text": "text encoders",
    "vision": "vision models, alone or beside a text encoder",
    "audio": "audio encoders",
}


def module_section(outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """Counts for each part, then every type with its class and its result for each target."""
    heads = [*MODULE_COLUMNS, "reason"]
    lines = [_HEAD, "| part | types | equal | refused | other | not run |", "|---|---|---|---|---|---|"]
    lines += [_counts(part, outcomes) for part in _TITLES]
    lines += ["", f"| type | class | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    lines += [_row(kind, MODULES[part][kind], outcomes) for part in _TITLES for kind in module_types(part)]
    return "\n".join([*lines, ""])


def _counts(part: str, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    kinds = module_types(part)
    found = [outcomes[kind, "host"].result for kind in kinds if (kind, "host") in outcomes]
    good, refused = found.count("equal"), found.count("refused")
    numbers = (len(kinds), good, refused, len(found) - good - refused, len(kinds) - len(found))
    return f"| {_TITLES[part]} | {' | '.join(map(str, numbers))} |"


def _row(kind: str, maker: str, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    known = [outcomes.get((kind, column)) for column in MODULE_COLUMNS]
    reasons = dict.fromkeys(plain(outcome.reason) for outcome in known if outcome is not None and outcome.reason)
    return f"| `{kind}` | `{maker}` | {' | '.join(cell(outcome) for outcome in known)} | {'; '.join(reasons)} |"


_HEAD = """
## Encoders and vision models

Tiny models with random weights again, each of the class that is named, exported without rounding for `host`, for
`android-cpu` (ExecuTorch's standard kernels) and as ONNX for the same phones (`onnx`, executed by ONNX Runtime here).
"Equal" means that every output of the bundle agrees with transformers' own forward (eager attention, float32), on
inputs that the export did not see: to 1e-3 of the output's largest value, to 3e-2 as an `iphone mlpackage` in float16,
which edgec's interpreter executes. The counts are of `host`. Texts end in padding; where a bundle takes texts of any
length, one token, seven and the most are compared. Written by `python -m benchmarks.coverage --modules` from
`benchmarks/coverage_parts/module_outcomes.json`. An empty cell was not run, and no phone has run these.
"""
