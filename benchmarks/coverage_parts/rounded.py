"""A bundle's tokens beside those of the rounded graph that it was made from."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from benchmarks.coverage_parts.spoken import NEW_TOKENS, PROMPT, behind, judged
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls, text_logits
from edgec.exporter.parity.rounded_activations import NEAR, USUALLY_NEAR, Followed, Outputs, follow
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
    return with_activations(found, followed, said, tie)


def _rounded_graph(options: ExportOptions) -> Program:
    from edgec.exporter.calibration.stage import with_text
    from edgec.exporter.progress import Progress
    from edgec.exporter.resolve.resolved import resolve_options
    from edgec.exporter.stage_cache import StageCache
    from edgec.exporter.stages.decoder import DecoderStages

    with StageCache() as cache:
        request = with_text(resolve_options(options).request, cache, Progress())
    return DecoderStages(request).rewrite_unmeasured(Progress())


def _execute(program: Program, calls: Sequence[ProbeCall]) -> Outputs:
    from edgec.backends.cpu.linear.layout import BlockRows
    from edgec.backends.cpu.lower import lower
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "telling.pte"
        artifact.write_bytes(lower(program, block_rows=BlockRows.of(platform.machine())).artifact)
        method = TorchMethod(artifact)
        return [method(call.inputs) for call in calls]


def with_activations(found: tuple[str, str], followed: Followed, said: list[int], tie: float) -> tuple[str, str]:
    """The result once the graph takes the bundle's activations: equal where it says the same, and its own were near.

    They are those of the artifact once more, lowered with its activations as outputs; it says the bundle's tokens.

    Args:
        found: the result with the graph's own activations.
        followed: the graph with the bundle's.
        said: the bundle's tokens.
        tie: relative to the largest logit.
    """
    apart = max(float(rows.max()) for rows in followed.apart)
    usual = max(float(rows.median()) for rows in followed.apart)
    told = f"where they are rounded, those of a row are within {apart:.0e} of the graph's, usually {usual:.0e}"
    if apart < NEAR and usual < USUALLY_NEAR and _says(followed, said, tie):
        return "equal", f"to the graph with the bundle's activations; {told}"
    return found[0], f"{found[1]}; {told}"


def _says(followed: Followed, said: list[int], tie: float) -> bool:
    """Whether the graph says the same at every position, save for ties, as does the artifact that was looked into."""
    own = followed.artifact_logits.argmax(-1)
    return torch.equal(own, torch.tensor(said)) and max(behind(said, followed.logits)) < tie
