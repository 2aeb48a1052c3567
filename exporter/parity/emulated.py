"""A phone's artifact executed by the phone's own runner, under an emulator: a rung of the parity ladder.

    artifact -> this machine's kernels  (AVX) -> logits -+
             -> the phone's kernels    (NEON) -> logits -+-> compared

Both are fed the first calls of the ladder's probe: a whole chunk, a part of one after its end, single tokens, and
calls of several rows. Matrices give the same bits on both; norms and attention add in vectors of another width, so
the logits are compared with the tolerance of every lowering. An emulator's time is not a speed, and none is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgec.bundle.findings import Rung
from edgec.devices.qemu.emulator import CPU, EMULATOR
from edgec.errors import BudgetError, InputError

if TYPE_CHECKING:
    from edgec.exporter.parity.execution_noise import Noise
    from edgec.exporter.parity.probe import Probe
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.ir.call_plan import Call
    from edgec.runtime_py.verify.emulated import EmulatedRunner, Floats

STAGE: Final = "artifact on arm64"
EMULATED: Final = f"edgec's arm64 runner under {EMULATOR}, as a {CPU}"
FIX: Final = "do not ship this artifact: report it with the model's architecture and the recipe"
# A plan begins with a chunk, a part of one, three single tokens and two calls of several rows.
_CALLS = 7


@dataclass(frozen=True)
class Emulation:
    """Whether the phone's runner executes the artifact under an emulator.

    Attributes:
        runs: it does.
        why_not: the reason where it does not; empty where the target has no such rung.
    """

    runs: bool = False
    why_not: str = ""


def emulated_calls(plan: Sequence[Call]) -> tuple[Call, ...]:
    """The first calls of a probe's plan, one after the other from the start of the sequence."""
    first = tuple(plan[:_CALLS])
    ends = (0, *(call.start + call.size for call in first))
    return tuple(call for call, end in zip(first, ends, strict=False) if call.start == end)


def fed_tokens(calls: Sequence[Call]) -> int:
    """How many tokens the calls feed."""
    return sum(call.size for call in calls)


def emulated_rung(
    artifact: Path, probe: Probe, recipe: Recipe, context: int, vocabulary: int, noise: Noise | None = None
) -> Rung:
    """Execute a decoder's .pte by both sets of kernels and compare.

    Args:
        artifact: for a phone's CPU; it passed the other rungs.
        probe: the ladder's.
        recipe: decides how far the two may differ.
        context: positions that the artifact serves.
        vocabulary: logits per position.
        noise: how far two right executions of its graph differ; None where that was not measured.

    Raises:
        BudgetError: E538, the runner did not execute it.
        ToolError: E311, E312, E571 or E572, the emulator or the runner is gone since the export began.
    """
    import torch

    from edgec.exporter.parity.execution import run_artifact
    from edgec.exporter.parity.ladder import ALONE, Stage, executed_budget, lowering_rung
    from edgec.exporter.recipes.passes import rounds_values
    from edgec.runtime_py.verify.emulated import EmulatedRunner

    calls = emulated_calls(probe.plan)
    tokens = probe.tokens[: fed_tokens(calls)]
    here = run_artifact(artifact, tokens, calls)
    there = torch.from_numpy(_fed(EmulatedRunner.of_artifact(artifact, context, vocabulary), tokens, calls))
    rounded, same = rounds_values(recipe), "; the same bits" if torch.equal(here, there) else ""
    note = f"simulated: {EMULATED}, {len(tokens)} tokens in {len(calls)} calls{same}"
    budget = executed_budget(recipe, rounded=rounded, noise=noise, multiple=ALONE)
    return lowering_rung(Stage("artifact", here), Stage(STAGE, there), budget, rounded=rounded, note=note)


def _fed(runner: EmulatedRunner, tokens: Sequence[int], calls: Sequence[Call]) -> Floats:
    try:
        return runner.feed(tokens, [(call.start, call.size, call.rows) for call in calls])
    except InputError as error:
        if error.code != "E573":
            raise
        what = f"the lowering check failed: {error.what}"
        raise BudgetError(what, f"stage {STAGE}", error.why, FIX, "E538") from error
