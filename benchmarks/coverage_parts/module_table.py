"""The part of docs/models.md about encoders and vision models, written from their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
    """Counts for each part and target, then every type with its class and its result for each target."""
    heads = [*MODULE_COLUMNS, "reason"]
    lines = [_HEAD, f"| part | types | {' | '.join(MODULE_COLUMNS)} |", "|---" * (len(MODULE_COLUMNS) + 2) + "|"]
    lines += [_counts(part, outcomes) for part in _TITLES]
    lines += ["", f"| type | class | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    lines += [_row(kind, MODULES[part][kind], outcomes) for part in _TITLES for kind in module_types(part)]
    return "\n".join([*lines, ""])


def _counts(part: str, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    kinds = module_types(part)
    return (
        f"| {_TITLES[part]} | {len(kinds)} | {' | '.join(_count(kinds, name, outcomes) for name in MODULE_COLUMNS)} |"
    )


def _count(kinds: Sequence[str], column: str, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """How many types have each result, such as ``22 equal, 1 refused``."""
    found = Counter(outcomes[kind, column].result for kind in kinds if (kind, column) in outcomes)
    return ", ".join(f"{count} {result}" for result, count in found.most_common())


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
which edgec's interpreter executes. Texts end in padding; where a bundle takes texts of any
length, one token, seven and the most are compared. Written by `python -m benchmarks.coverage --modules` from
`benchmarks/coverage_parts/module_outcomes.json`. An empty cell was not run, and no phone has run these.
"""
