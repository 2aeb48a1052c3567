"""From a decoder's source to its reference numbers and its captured program."""

from __future__ import annotations

from edgec.bundle.manifest import Limits
from edgec.exporter.adapt.record import recorded_grids
from edgec.exporter.capture.decoder import capture_decoder, skeleton
from edgec.exporter.parity.execution import run_eager
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.probe import Probe
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.resolve import ModelSource
from edgec.exporter.sources.weights import HeldWeights, Weights
from edgec.ir.program import Program
from edgec.ir.spec import ModelSpec
from edgec.passes.compress.rounding.learned_grids import record_grids


def hold_weights(source: ModelSource) -> HeldWeights:
    """The weights of a decoder's source, each read once and shared by the reference and the capture."""
    assert source.weights is not None  # a decoder's are named, only a factory's module owns its own
    return HeldWeights(source.weights)


def eager_stage(source: ModelSource, weights: Weights, probe: Probe) -> Stage:
    """Transformers' own model on the probe, in float32 over the weights as they are stored."""
    model = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    return Stage("transformers float32", run_eager(model, probe.tokens, probe.plan))


def capture(source: ModelSource, weights: Weights, spec: ModelSpec, limits: Limits) -> Program:
    """Trace the decoder and bind its weights."""
    bones = skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(bones, spec, weights, max(limits.context, 8))
    record_grids(program.graph, recorded_grids(source))
    return program


def capture_request(request: ExportRequest, weights: HeldWeights, progress: Progress) -> Program:
    """The traced decoder of a request, from now on the only holder of its weights."""
    progress.enter("capture")
    program = capture(request.source, weights, request.spec, request.limits)
    weights.let_go()
    return program
