"""Compare a captured decoder with transformers' own model at the last positions of the context.

The text of the probe is shorter than most contexts. Where rotary frequencies depend on the length of a text, a few
tokens at its last positions tell whether those of the artifact are what transformers has for a text of that length:
without a cache, tokens attend to each other only, wherever their positions begin. Costs 8 tokens, twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.sources.decoders.rotation_limits import rotation_limit
from edgec.exporter.sources.decoders.spec import text_config
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.graph_run import first_output, run_calls
from edgec.ir.program import Program

STAGE = "last positions"
_TOKENS = 8


def last_positions(source: ModelSource, weights: Weights, context: int) -> tuple[Tensor, Tensor] | None:
    """Positions [S] at the end of a context, and transformers' logits [S, V] there; None where length changes nothing.

    Args:
        source: the decoder; its frequencies are chosen by transformers here, and held by nothing.
        weights: under the model's parameter names.
        context: the artifact's.
    """
    if rotation_limit(text_config(source.config)) is None:
        return None
    model = source.build_on("cpu", attn_implementation="eager", held=False)
    put_weights(model, weights, as_stored=True)
    size = min(_TOKENS, context)
    positions = torch.arange(context - size, context)
    with torch.no_grad(), InFloat32():
        logits = model(input_ids=_tokens(source, size), position_ids=positions[None], use_cache=False).logits[0]
    return positions, logits.float()


def last_rung(program: Program, source: ModelSource, wanted: tuple[Tensor, Tensor]) -> Rung:
    """The captured program against what ``last_positions`` gave."""
    positions, logits = wanted
    given = {"tokens": _tokens(source, len(positions)), "positions": positions}
    with torch.no_grad():
        outputs = list(run_calls(program, [[given[each.name] for each in program.interface.inputs]]))
    note = f"positions {int(positions[0])} to {int(positions[-1])}, where frequencies follow from the text's length"
    after = Stage(STAGE, first_output(outputs[0])[0].float())
    return lowering_rung(Stage("transformers float32", logits), after, note=note)


def _tokens(source: ModelSource, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(int(text_config(source.config)["vocab_size"]), (1, size), generator=generator)
