"""Choose the phone and format that ``--target`` and ``--format`` stand for, for a given model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgec.backends.forms import form_of
from edgec.backends.litert.npu import NPU_PACKAGES, npu_refusal
from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.devices.prediction.footprint import Widths, kv_bytes
from edgec.devices.prediction.forecast import Plan, plan
from edgec.devices.prediction.oldest_fit import FAMILY, oldest_fit
from edgec.devices.prediction.parameters import DecoderShape
from edgec.devices.targets import Target, all_targets, with_layout
from edgec.errors import InputError
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import AUDIO_LANGUAGE, DECODER, ENCODER_DECODER, VISION_LANGUAGE

if TYPE_CHECKING:
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.exporter.sources.model_source import ModelSource

_KV_BITS = 16
# Kinds of models that keep keys and values of a text.
_DECODERS = (DECODER, ENCODER_DECODER, VISION_LANGUAGE, AUDIO_LANGUAGE)


def plan_target(decoder: DecoderShape, asked: Target, widths: Widths, **lengths: Any) -> tuple[Plan, str]:
    """Plan for a target, or, where it names a family, for the oldest phone that the model fits; also returns why.

    ``lengths`` and what else ``plan`` takes by name are handed on.

    Raises:
        InputError: E467, no phone fits; and what ``plan`` raises.
    """
    first = plan(decoder, asked, widths, **lengths)
    if asked.name != FAMILY:
        return first, ""
    # Weights and caches, as ``choose_target`` counts them for an export.
    needed = int(first.footprint.size_bytes.low) + first.footprint.kv_bytes
    fit = oldest_fit(needed, asked.format, unit=asked.unit)
    return plan(decoder, fit.target, widths, **lengths), fit.reason


def choose_target(
    asked: Target, source: ModelSource, recipe: Recipe, context: int | None, adapter_bytes: int = 0
) -> tuple[Target, str]:
    """Choose the phone where a target names a family; also returns why. Any other target is returned as it is.

    Args:
        asked: as ``--target`` names it, with its unit and format.
        source: the model.
        recipe: resolved for the target's backend.
        context: positions the artifact serves; None for the recipe's, the format's or the model's own number.
        adapter_bytes: of the adapters in the artifact.

    Raises:
        InputError: E467, no known phone of the family fits.
    """
    if asked.name != FAMILY:
        return asked, ""
    positions = context or recipe.context or default_context(asked, source)
    needed = needed_bytes(source, recipe, positions, 16 if form_of(asked).half else 32)
    fit = oldest_fit(needed + adapter_bytes, asked.format, unit=asked.unit)
    return with_layout(fit.target, asked.layout), fit.reason


def needed_bytes(source: ModelSource, recipe: Recipe, context: int | None, float_bits: int = 32) -> int:
    """Bytes of weights and caches (estimated): every weight at the recipe's bits, keys and values in float16.

    Of an encoder-decoder also the keys and values of its longest source.

    ``float_bits``: bits of a weight that stays in float.
    """
    from edgec.exporter.resolve.memory_forecast import expected_artifact_bytes
    from edgec.exporter.sources.encoders.encoder_decoder import states_of

    weights = expected_artifact_bytes(source, recipe, float_bits)
    if source.kind not in _DECODERS:
        return weights
    spec = model_spec(source.config)
    own = kv_bytes(spec, _KV_BITS, min(context or spec.usual_context, spec.context))
    return weights + own + (kv_bytes(spec, _KV_BITS, states_of(source.reads, source.config)) if source.reads else 0)


def default_context(target: Target, source: ModelSource) -> int | None:
    """Positions that a decoder's static cache holds by default; None where the model's own length counts."""
    if source.kind not in _DECODERS or not form_of(target).static:
        return None
    return min(form_of(target).context, model_spec(source.config).usual_context)


def on_unit(target: Target, unit: str | None) -> Target:
    """The target of the same phone whose artifact that unit runs, in its first format; None keeps the target's own.

    Raises:
        InputError: E869, the phone has no such unit, or it has no artifacts; E965, an NPU that LiteRT alone reaches.
        ToolError: E963, E964, likewise, and its compiler is not here.
    """
    if unit is None or unit == target.unit:
        return target
    same = [each for each in all_targets() if each.phone == target.phone]
    match = next((each for each in same if each.unit == unit), None)
    vendor = target.vendor or ""
    if match is None and unit == "npu" and vendor in NPU_PACKAGES:
        raise npu_refusal(vendor, target.chip_name or target.phone_name)
    if match is None:
        what = f"{target.name} has no unit {unit[:20]!r} that artifacts are made for"
        raise _lacking(what, "unit", list(dict.fromkeys(each.unit for each in same)), "E869")
    return _named_as(target, match)


def in_format(target: Target, format: str | None) -> Target:
    """The target of the same phone and unit that has a format; None keeps the target's own.

    Raises:
        InputError: E403, the unit has no such format.
    """
    if format is None or format == target.format:
        return target
    same = [each for each in all_targets() if (each.phone, each.unit) == (target.phone, target.unit)]
    match = next((each for each in same if each.format == format), None)
    if match is None:
        raise _lacking(f"{target.name} has no format {format!r}", "format", [each.format for each in same], "E403")
    return _named_as(target, match)


def _lacking(what: str, option: str, there: Sequence[str], code: str) -> InputError:
    return InputError(
        what=what,
        where=f"--{option}",
        why=f"it has {', '.join(there)}",
        fix=f"use --{option} {there[0]}, or another target",
        code=code,
    )


def _named_as(target: Target, match: Target) -> Target:
    """The match of an alias keeps the alias's name, so that a family's phone is still chosen by the model."""
    return replace(match, name=target.name, alias_of=match.name) if target.alias_of else match


def in_layout(target: Target, layout: str | None) -> Target:
    """The target with an artifact in a layout; None stands for edgec's own.

    Raises:
        InputError: E854, the target's format cannot have it.
    """
    layout = layout or DEFAULT_LAYOUT
    formats = LAYOUTS[layout].formats
    if target.format not in formats:
        raise InputError(
            what=f"a {target.format} cannot have the layout {layout!r}",
            where="--layout",
            why=f"{LAYOUTS[layout].reader} reads it from: {', '.join(formats)}",
            fix=f"add --format {formats[0]}, or leave --layout out",
            code="E854",
        )
    return with_layout(target, layout)
