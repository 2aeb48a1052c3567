"""Which stages a decoder with static methods takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.exporter.stages.static_stages import StaticDecoderStages

if TYPE_CHECKING:
    from edgec.exporter.pipeline import Request


def static_decoder_stages(request: Request) -> StaticDecoderStages:
    """Those of its form: in fixed point there are ranges to measure, and one rung more to check."""
    if not request.form.calibrated:
        return StaticDecoderStages(request)
    from edgec.exporter.stages.calibrated_stages import CalibratedDecoderStages

    return CalibratedDecoderStages(request)
