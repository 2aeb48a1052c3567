"""Which stages a request takes: data, by the kind of model and the form of its artifact."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.protocol import Stages

_HERE = "edgec.exporter.stages"
# By whether the model is a decoder, its methods have fixed shapes, and they compute in fixed point.
_STAGES: Mapping[tuple[bool, bool, bool], tuple[str, str]] = {
    (True, False, False): (f"{_HERE}.decoder", "DecoderStages"),
    (True, True, False): (f"{_HERE}.static_decoder", "StaticDecoderStages"),
    (True, True, True): (f"{_HERE}.calibrated", "CalibratedDecoderStages"),
    (False, False, False): (f"{_HERE}.module", "ModuleStages"),
    (False, True, False): (f"{_HERE}.static_module", "StaticModuleStages"),
    (False, True, True): (f"{_HERE}.calibrated", "CalibratedModuleStages"),
}


REWRITING = (f"{_HERE}.rewriting", f"{_HERE}.pass_orders", f"{_HERE}.capturing")
"""The modules that turn a source into the last graph, whatever its stages."""


def stages_of(request: ExportRequest) -> Stages:
    """The stages of a request; only what they need is imported."""
    module, name = _named(request)
    stages: Stages = getattr(import_module(module), name)(request)
    return stages


def stage_module(request: ExportRequest) -> str:
    """The module of a request's stages."""
    return _named(request)[0]


def _named(request: ExportRequest) -> tuple[str, str]:
    form = request.form
    return _STAGES[request.source.kind == "decoder", form.static, form.calibrated]
