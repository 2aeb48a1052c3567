"""What a phone is expected to do with a bundle, for its report: the same estimates that ``edgec plan`` prints."""

from __future__ import annotations

from contextlib import suppress

from edgec.devices.prediction.forecast import Plan
from edgec.devices.targets import DEFAULT_TARGET
from edgec.errors import EdgecError
from edgec.exporter.dimensions.shapes import model_shape
from edgec.exporter.report.estimates import Estimate
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.target_choice import plan_target
from edgec.exporter.resolve.widths import recipe_widths

_PROMPT_TOKENS = 512


def estimates(request: ExportRequest) -> tuple[Estimate, ...]:
    """The estimates for the request's phone; none for this machine, and where nothing can be estimated."""
    source = request.source
    if request.target.name == DEFAULT_TARGET or source.kind != "decoder" or source.path is None:
        return ()
    context = request.limits.context
    prompt = min(_PROMPT_TOKENS, context // 2)
    lengths = {"context": context, "prompt_tokens": prompt, "call_tokens": request.limits.prefill_chunk}
    with suppress(EdgecError):  # A whole bundle is not refused for want of an estimate.
        shape = model_shape(source.config, form=request.form, context=context, folder=source.path)
        made, _ = plan_target(shape, request.target, recipe_widths(request.recipe), **lengths)
        return _shown(made)
    return ()


def _shown(made: Plan) -> tuple[Estimate, ...]:
    speeds = made.speeds
    rows = (
        (f"memory, {made.context:,} tokens of context", made.footprint.peak_bytes, "MB", 1e6),
        (f"first token, prompt of {made.prompt_tokens:,} tokens", speeds.ttft_ms, "s", 1e3),
        ("prefill", speeds.prefill_tokens_per_s, "tokens/s", 1.0),
        ("decode", speeds.decode_tokens_per_s, "tokens/s", 1.0),
    )
    return tuple(
        Estimate(name, None if found is None else (found.low / scale, found.mid / scale, found.high / scale), unit)
        for name, found, unit, scale in rows
    )
