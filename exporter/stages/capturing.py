"""Run a decoder's own code for reference numbers, and capture it as a program."""

from __future__ import annotations

import torch
from torch import nn

from edgec.bundle.entry_points import Limits
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_eager
from edgec.exporter.parity.finite_values import not_finite
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.probe import Probe
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.adapt_record import recorded_grids
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.stored_parameters import row_tensors, stored_parameters
from edgec.exporter.sources.weights.streamed import LoadedWeights, Weights
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Program
from edgec.ir.spec import ModelSpec
from edgec.passes.compress.rounding.learned_grids import record_grids
from edgec.passes.compress.rounding.stored_integers import record_stored


def hold_weights(source: ModelSource) -> LoadedWeights:
    """Hold the weights of a decoder, so that each is read once for the reference and the capture together."""
    assert source.weights is not None  # only a factory's module owns its weights, and that is never a decoder
    return LoadedWeights(source.weights)


def stream_weights(source: ModelSource) -> LoadedWeights:
    """As ``hold_weights``, but for matrices of a GGUF file's blocks: their rows are made whenever they are read.

    ``fill_floats`` gives those that no pass rounds memory of their own.
    """
    assert source.weights is not None
    return LoadedWeights(source.weights, row_tensors(source.weights))


def eager_model(source: ModelSource, weights: Weights) -> nn.Module:
    """Transformers' own model over the weights as they are stored."""
    model: nn.Module = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    return model


def eager_stage(model: nn.Module, probe: Probe, memo: LinearMemo | None = None, *, further: bool = False) -> Stage:
    """Run transformers' own model on the probe, in float32.

    Args:
        model: transformers' own.
        probe: the ladder's.
        memo: keeps the products of linear layers for the captured program.
        further: run the probe's further positions, too, where it has any.

    Raises:
        InputError: E769, the model's own code fails, as it does on sizes that no checkpoint has; E820, it gives
            numbers that are not finite.
    """
    with own_code(model, "a text"):
        more = run_eager(model, probe.further, probe.further_plan) if further and probe.further else None
        logits = run_eager(model, probe.tokens, probe.plan, memo)
    if not bool(torch.isfinite(logits).any(-1).all()) or bool(torch.isnan(logits).any()):
        raise not_finite(model, probe.tokens)
    return Stage("transformers float32", logits, further=more)


def capture(source: ModelSource, weights: Weights, spec: ModelSpec, limits: Limits) -> Program:
    """Trace the decoder and bind its weights."""
    skeleton = build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, spec, weights, max(limits.context, 8))
    record_grids(program.graph, recorded_grids(source))
    record_stored(program.graph, stored_parameters(source, skeleton.aliases))
    return program


def capture_request(request: ExportRequest, weights: LoadedWeights, progress: Progress) -> Program:
    """Trace a request's decoder; from then on only the program holds the weights."""
    progress.enter("capture")
    program = capture(request.source, weights, request.spec, request.limits)
    weights.let_go()
    return program
