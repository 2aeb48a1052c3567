"""The quality cost of each form of weights on the example model: python -m benchmarks.compression_quality [--json].

The model's graph runs with its weights in float32, then with each form in turn, on stories that it was never trained
on (``quality_parts.subjects``), teacher-forced. Only linear layers change; embedding and lm_head (one tensor) stay in
float, so that the rows differ in nothing else. The rows named after recipes compress them too, as those recipes do for
Core ML. *Calibrated*: errors weighted by the size of activations on training text. All figures are measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING

from benchmarks.quality_parts.subjects import WINDOW, calls, example_model

if TYPE_CHECKING:
    from torch import Tensor

    from edgec.ir.program import Program
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.contract import Pass

CALIBRATION_TOKENS = 8 * WINDOW
RECIPES = ("8bit", "4bit", "4bit-small", "int4-channel", "lut6", "lut4", "sparse-lut4", "balanced2", "lut2")


@dataclass(frozen=True)
class Row:
    """The figures of one form of weights.

    Attributes:
        nats: negative log-likelihood per token.
        kl: divergence of its predictions from the float model's, nats per token.
        same_top1: share of positions with the same most likely token, 0..1.
        bits: stored bits per compressed weight, tables and scales included; None for float.
    """

    name: str
    calibrated: bool
    nats: float
    kl: float
    same_top1: float
    bits: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=8192, help="held-out tokens")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    rows = measure(options.tokens, options.only)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
        return
    print("| weights | calibrated | bits/weight | nats/token | KL, nats | same top-1 |\n|---|---|---|---|---|---|")
    for row in rows:
        print(line(row), flush=True)


def line(row: Row) -> str:
    """The row as a line of Markdown."""
    bits = "32 (float)" if row.bits is None else f"{row.bits:.2f}"
    rest = f"{row.nats:.4f} | {row.kl:.4f} | {row.same_top1:.1%}"
    return f"| {row.name} | {'yes' if row.calibrated else 'no'} | {bits} | {rest} |"


def measure(tokens: int, only: str = "") -> Iterator[Row]:
    """A row for the float model, one for each form, and one for each recipe, if its name contains ``only``."""
    subject = example_model(tokens, CALIBRATION_TOKENS)
    windows, known, program = subject.held_out, subject.known, subject.program
    reference = _log_probabilities(program, windows)
    yield _row("float", False, reference, reference, windows, None)
    chosen = (form for form in chain(forms(known), recipes(known)) if only in form[0])
    for name, passes, calibrated in chosen:
        changed = _applied(program, passes)
        yield _row(name, calibrated, _log_probabilities(changed, windows), reference, windows, _bits(changed))


def forms(known: Sequence[Tensor]) -> Iterator[tuple[str, list[Pass], bool]]:
    """Each form applied to linear layers alone, tables also calibrated."""
    from edgec.ir.weight_scheme import WeightScheme, balanced, lut
    from edgec.passes.compress.palettize import Palettize
    from edgec.passes.compress.quantize import Quantize
    from edgec.passes.graph.calibration import Calibration

    for name, (bits, group) in {"int8 channel": (8, 0), "int4 block 32": (4, 32), "int4 channel": (4, 0)}.items():
        yield name, [Quantize(default=WeightScheme(bits, group, activation_bits=0))], False
    tables: list[WeightScheme] = [*(lut(bits, 16) for bits in (8, 6, 4, 3, 2, 1)), lut(4), balanced(1), balanced(16)]
    tables += [lut(4, 16, sparsity=0.5), lut(4, 16, sparsity=0.5, sparse_block=4)]
    for scheme in tables:
        block = f" ({scheme.sparse_block // 2}:{scheme.sparse_block})" if scheme.sparse_block else ""
        for calibration in (Calibration(), Calibration(calls=calls(known))):
            yield f"{scheme}{block}", [Palettize(default=scheme, calibration=calibration)], bool(calibration)


def recipes(known: Sequence[Tensor]) -> Iterator[tuple[str, list[Pass], bool]]:
    """The named recipes as Core ML expresses them."""
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.recipes.passes import passes_for
    from edgec.exporter.recipes.recipe import for_backend
    from edgec.passes.graph.calibration import Calibration

    for name in RECIPES:
        for calibration in (Calibration(), Calibration(calls=calls(known))):
            passes = passes_for(for_backend(load_recipe(name), "coreml"), calibration)
            if not calibration or any(each.name == "palettize" for each in passes):
                yield f"recipe `{name}`", passes, bool(calibration)


def _applied(program: Program, passes: Sequence[Pass]) -> Program:
    from edgec.passes.contract import run_pass

    for each in passes:
        program = run_pass(program, each)
    return program


def _log_probabilities(program: Program, windows: Sequence[Tensor]) -> Tensor:
    import torch

    with torch.no_grad():
        return torch.cat([program.graph(*call)[0].log_softmax(-1) for call in calls(windows)])


def _row(
    name: str, calibrated: bool, logprobs: Tensor, reference: Tensor, windows: Sequence[Tensor], bits: float | None
) -> Row:
    import torch

    ids = torch.cat([window[0] for window in windows])
    # The first token of a window is predicted from nothing.
    follows = torch.arange(len(ids)) % WINDOW != WINDOW - 1
    nats = -logprobs[:-1].gather(1, ids[1:, None])[follows[:-1]].mean()
    kl = (reference.exp() * (reference - logprobs)).sum(-1).mean()
    same = (reference.argmax(-1) == logprobs.argmax(-1)).float().mean()
    return Row(name, calibrated, float(nats), float(kl), float(same), bits)


def _bits(program: Program) -> float:
    from edgec.ir.quantized_form import decisions_of

    used = {d.buffers: d for d in decisions_of(program.graph) if d.used is not None}.values()
    return 8 * sum(d.bytes for d in used) / sum(d.shape[0] * d.shape[1] for d in used)


if __name__ == "__main__":
    main()
