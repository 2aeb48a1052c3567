"""A bundle's tokens beside those of the rounded graph that it was made from."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from benchmarks.coverage_parts.chosen_experts import Followed, Outputs, follow
from benchmarks.coverage_parts.spoken import NEW_TOKENS, PROMPT, behind, judged
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls, text_logits
from edgec.ir.call_plan import Call

if TYPE_CHECKING:
    from edgec.ir.program import Program


def compared_with_rounded_graph(
    options: ExportOptions, prompt: list[int], said: list[int], tie: float
) -> tuple[str, str]:
    """The result and its reason: the graph reads the prompt and each beginning of what the bundle said."""
    program = _rounded_graph(options)
    singles = [Call(PROMPT + index, 1, 1) for index in range(NEW_TOKENS - 1)]
    calls = text_calls(program.interface, [*prompt, *said[:-1]], [Call(0, PROMPT, 1), *singles])
    found = judged(said, text_logits(program, calls), tie)
    if found[0] == "equal" or (followed := follow(program, calls, _execute)) is None:
        return found
    return with_chosen_experts(found, followed, said, tie)


def _rounded_graph(options: ExportOptions) -> Program:
    from edgec.exporter.progress import Progress
    from edgec.exporter.resolve.resolved import resolve_options
    from edgec.exporter.stages.decoder import DecoderStages

    return DecoderStages(resolve_options(options).request).rewrite_unmeasured(Progress())


def _execute(program: Program, calls: Sequence[ProbeCall]) -> Outputs:
    from edgec.backends.edgec_linear.layout import BlockRows
    from edgec.backends.xnnpack.lower import lower
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "telling.pte"
        artifact.write_bytes(lower(program, block_rows=BlockRows.of(platform.machine())).artifact)
        method = TorchMethod(artifact)
        return [method(call.inputs) for call in calls]


def with_chosen_experts(found: tuple[str, str], followed: Followed, said: list[int], tie: float) -> tuple[str, str]:
    """The result once the graph takes the bundle's experts: equal where each choice of another was a tie of two scores.

    A tie is nearer than ``tie``, and nearer than twice what the scores of graph and bundle differ where both chose the
    same experts: both of two scores may move.

    Args:
        found: the result with the graph's own experts.
        followed: the graph with the bundle's.
        said: the bundle's tokens.
        tie: relative to the largest logit, and to the largest score.
    """
    apart, noise = (torch.cat(each) for each in zip(*((r.margins(), r.noise()) for r in followed.routed), strict=True))
    others, most, usual = int((apart > 0).sum()), float(apart.max()), float(noise[apart == 0].max())
    if not others:
        return found[0], f"{found[1]}; every router chose the same experts"
    told = f"{others} of {len(apart)} choices differ, of scores at most {most:.0e} of the largest apart"
    told += f" (noise elsewhere {usual:.0e})"
    if most <= min(tie, 2 * usual) and _says(followed, said, tie):
        return "equal", f"to the graph with the bundle's experts: {told}"
    return found[0], f"{found[1]}; experts: {told}"


def _says(followed: Followed, said: list[int], tie: float) -> bool:
    """Whether the graph says the same at every position, save for ties, as does the artifact that was looked into."""
    own = followed.artifact_logits.argmax(-1)
    return torch.equal(own, torch.tensor(said)) and max(behind(said, followed.logits)) < tie
