"""``edgec.plan``: the forecast of a model's size, memory and speed on a phone, before either is at hand.

Size, KV cache and memory are arithmetic on the config's shapes. Speeds come from a roofline calibrated on published
measurements (docs/plan.md says how well it does on phones it has not seen). Everything is an estimate and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from edgec.devices.prediction.app_limit import AppLimit, app_limit
from edgec.devices.prediction.footprint import Footprint, Widths, footprint, kernels_of
from edgec.devices.prediction.memory_fit import WORTH_SHRINKING, Narrower, Proposal, Verdict, judge, mildest
from edgec.devices.prediction.parameters import (
    STATE_FORMS,
    DecoderShape,
    EncoderShape,
    Kind,
    Parameter,
    macs_per_token,
)
from edgec.devices.prediction.shared_layers import without_shared
from edgec.devices.prediction.speed import Measured
from edgec.devices.prediction.speed_forecast import Speeds, Task, forecast
from edgec.devices.targets import Target
from edgec.errors import InputError
from edgec.ir.kv_donors import shared_spec
from edgec.ir.spec import ModelSpec

PREFILL_CHUNK = 128
_DEFAULT_CONTEXT = 4096
_PROMPT_TOKENS = 512
_NOT_INCLUDED = "memory of the app itself and of the runtime's code is not included"
_ENCODER_UNKNOWN = "what the encoder needs while it runs is unknown, and not included"
_NO_SPEEDS = "speeds are unavailable: no measurements are known of models with an encoder"
_SENSES = "speeds are those of text: the time in which an image or a sound is read is not known"
_STATES_UNKNOWN = "what the layers without keys and values remember is unknown, and not included"


@dataclass(frozen=True)
class Plan:
    """The forecast for one model on one target; every ``Range`` is estimated.

    Attributes:
        context: tokens that the KV cache holds; 0 for a model that writes no text.
        prompt_tokens: length of the prompt that TTFT and decoding speed are given for; 0 likewise.
        call_tokens: of the prompt, in one call.
        parameters: of the model, tied ones once.
        macs_per_token: multiply-accumulates with weights; attention over the context is not in it.
        footprint: bytes of artifact, KV cache and peak memory.
        limit: of one app without an entitlement; ``limit_entitled``: with it.
        verdict: whether it fits that limit; ``verdict_entitled``: with the entitlement.
        speeds: prefill, decode and TTFT, each None where unavailable.
        smaller: what else to ask an export for, where this does not fit; else None.
        states_known: whether what recurrences remember is part of the memory.
        remarks: on this model.
    """

    target: Target
    widths: Widths
    context: int
    prompt_tokens: int
    call_tokens: int
    parameters: int
    macs_per_token: int
    footprint: Footprint
    limit: AppLimit | None
    limit_entitled: AppLimit | None
    verdict: Verdict
    verdict_entitled: Verdict
    speeds: Speeds
    smaller: Proposal | None
    states_known: bool = True
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what the estimates assume, and on why one is unavailable."""
        unknown = () if self.states_known else (_STATES_UNKNOWN,)
        return (_NOT_INCLUDED, *self.remarks, *unknown, *self.speeds.notes)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data; unknown figures are null."""
        return asdict(self) | {"notes": self.notes}


def plan(
    decoder: DecoderShape,
    target: Target,
    widths: Widths | None = None,
    *,
    context: int | None = None,
    prompt_tokens: int | None = None,
    call_tokens: int = PREFILL_CHUNK,
    narrower: Sequence[Narrower] = (),
    measured: Measured = (),
) -> Plan:
    """Forecast a decoder on a target.

    Args:
        decoder: its layers and parameters.
        target: the phone, unit and format.
        widths: bits of every kind of number; None for :func:`default_widths`.
        context: tokens that the KV cache holds; None for the model's own context, at most 4096.
        prompt_tokens: length of the prompt that TTFT and decoding speed are given for; None for 512, or the context
            where that is less.
        call_tokens: the most tokens of a prompt that one call of the artifact takes.
        narrower: what else an export can be asked for where this does not fit, the mildest first.
        measured: the user's own measurements of speeds.

    Raises:
        InputError: E183 (bits the target cannot hold), E184 (a length out of range).
    """
    widths = _legal(widths or default_widths(target), target)
    spec, listed = _with_shared_layers(decoder, widths)
    context, prompt_tokens = _lengths(spec, context, prompt_tokens)
    held = STATE_FORMS.get(target.backend, STATE_FORMS["xnnpack"])
    states = sum(state.bytes(held) for state in decoder.states or ())
    needs = partial(_footprint, listed, spec, target, states, decoder, call_tokens)
    size = needs(widths, context)
    limits = [app_limit(target, with_entitlement=asked) for asked in (False, True)]
    verdict, entitled = (judge(size.peak_bytes, limit, target.memory_bytes) for limit in limits)
    at_once = min(call_tokens, prompt_tokens)
    task = speed_task(spec, listed, target, widths, size, (prompt_tokens, at_once, context))
    every = (*listed, *(decoder.encoder.parameters if decoder.encoder else ()))
    return Plan(
        target=target,
        widths=widths,
        context=context,
        prompt_tokens=prompt_tokens,
        call_tokens=at_once,
        parameters=sum(p.count for p in every),
        macs_per_token=macs_per_token(listed),
        footprint=size,
        limit=limits[0],
        limit_entitled=limits[1],
        verdict=verdict,
        verdict_entitled=entitled,
        speeds=_speeds(task, target, decoder.encoder, measured),
        smaller=mildest(narrower, limits[0], target.memory_bytes, needs) if verdict in WORTH_SHRINKING else None,
        states_known=decoder.states is not None,
        remarks=(*decoder.remarks, *_of_encoder(decoder.encoder)),
    )


def speed_task(
    spec: ModelSpec,
    listed: Sequence[Parameter],
    target: Target,
    widths: Widths,
    size: Footprint,
    lengths: tuple[int, int, int],
) -> Task:
    """What a decoder of a footprint asks of a target; ``lengths``: tokens of the prompt, of a call and of the cache."""
    kernels = kernels_of(target.backend, widths) if widths.weight_bits < 16 else target.backend
    own = (size.read_bytes, kernels, widths.kv_bits)
    return Task(spec, listed, *own, *lengths, size.state_bytes, widths.float_inputs)


def _lengths(spec: ModelSpec, context: int | None, prompt_tokens: int | None) -> tuple[int, int]:
    """Tokens of the cache and of the prompt; a model without layers of a decoder has neither."""
    if not spec.layers:
        return 0, 0
    if prompt_tokens is None:
        prompt_tokens = min(_PROMPT_TOKENS, spec.usual_context if context is None else context)
    return _legal_context(spec, context, prompt_tokens), prompt_tokens


def _speeds(task: Task, target: Target, encoder: EncoderShape | None, measured: Measured) -> Speeds:
    """The speeds of a decoder; those of one whose tokens read an encoder's states were measured nowhere."""
    if encoder is not None and not encoder.parameters:
        return Speeds(None, None, None, (_NO_SPEEDS,))
    speeds = forecast(task, target, measured)
    known = encoder is not None and speeds.decode_tokens_per_s is not None
    return replace(speeds, notes=(*speeds.notes, _SENSES)) if known else speeds


def _of_encoder(encoder: EncoderShape | None) -> tuple[str, ...]:
    return (_ENCODER_UNKNOWN,) if encoder is not None and encoder.activation_bytes is None else ()


def _with_shared_layers(decoder: DecoderShape, widths: Widths) -> tuple[ModelSpec, tuple[Parameter, ...]]:
    """The decoder's layers and parameters, with keys and values shared as ``widths.kv_boundary`` says."""
    spec, listed = decoder.spec, decoder.parameters
    if widths.kv_boundary is None:
        return spec, listed
    shared = shared_spec(spec, widths.kv_boundary)
    return shared, without_shared(listed, spec, shared)


def default_widths(target: Target) -> Widths:
    """Four-bit weights in groups of 32, and the KV cache in the float the target computes with."""
    return Widths() if target.backend == "xnnpack" else Widths(kv_bits=16)


def _legal(widths: Widths, target: Target) -> Widths:
    legal = (*target.weight_bits, 32)
    for kind in (Kind.LINEAR, Kind.EMBEDDING, Kind.LM_HEAD):
        bits = widths.bits_of(kind)
        if bits not in legal and not widths.is_told(kind):
            name = "weight" if kind is Kind.LINEAR else kind.replace("_", " ")
            what = f"the format {target.format} cannot hold {name} bits of {bits}"
            raise InputError(
                what, target.name, fix=f"use one of {', '.join(map(str, target.weight_bits))}", code="E183"
            )
    if widths.kv_bits not in (4, 8, 16, 32):
        raise InputError(
            f"the KV cache cannot have {widths.kv_bits} bits", target.name, fix="use 4, 8, 16 or 32", code="E183"
        )
    return widths


def _legal_context(spec: ModelSpec, asked: int | None, prompt_tokens: int) -> int:
    usual = min(spec.usual_context, _DEFAULT_CONTEXT)
    context = min(spec.context, max(usual, prompt_tokens)) if asked is None else asked
    if not 0 < context <= spec.context:
        why = f"the model takes at most {spec.context} tokens"
        raise InputError(f"a context of {context} tokens is out of range", "--context", why, "lower it", "E184")
    if not 0 < prompt_tokens <= context:
        why = f"the context is {context} tokens"
        fix = "shorten the prompt or lengthen the context"
        raise InputError(f"a prompt of {prompt_tokens} tokens is out of range", "--prompt-tokens", why, fix, "E184")
    return context


def _footprint(
    listed: tuple[Parameter, ...],
    spec: ModelSpec,
    target: Target,
    state_bytes: int,
    decoder: DecoderShape,
    call_tokens: int,
    widths: Widths,
    context: int,
) -> Footprint:
    return footprint(
        listed,
        spec,
        widths,
        format=target.format,
        backend=target.backend,
        context=context,
        prefill_chunk=min(call_tokens, context),
        state_bytes=state_bytes,
        encoder=decoder.encoder,
        adapter_bytes=decoder.adapter_bytes,
    )
