"""What the Swift sources read of a bundle at run time, and the two files that are generated for it."""

from __future__ import annotations

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.facts_json import Section, facts_bytes, model_sections
from edgec.apps.embed.glue import Glue, caller_states
from edgec.apps.embed.number_types import LONG_BITS
from edgec.apps.embed.swift_text import string
from edgec.apps.embed.template_text import module_name

_SWIFT_TYPES = {"float16": "Float16", "float32": "Float", "int32": "Int32", "int8": "Int8"}


def bundle_folder(facts: AppFacts) -> str:
    """The name of the bundle's folder: all asset packs of an app share one root, a resource lies in its own package."""
    return f"{module_name(facts)}.edgec" if facts.in_asset_pack else "Model.edgec"


def swift_facts(facts: AppFacts, glue: Glue) -> bytes:
    """The content of ``facts.json``.

    Raises:
        InputError: E469, a number does not fit its type.
    """
    slots = _slots(facts, glue)
    sections = model_sections(facts, LONG_BITS, _model(facts, glue), _decoder(facts, glue, slots))
    if "speech" in sections:
        sections["speech"] = {**sections["speech"], "slots": slots}
    return facts_bytes(sections)


def _model(facts: AppFacts, glue: Glue) -> Section:
    return {
        "minimumOS": list(glue.minimum_os),
        "assetPack": f"{module_name(facts)}-model" if facts.in_asset_pack else None,
        "bundleFolder": bundle_folder(facts),
        "adapters": [adapter.name for adapter in facts.manifest.adapters],
        "unit": facts.target.unit,
        "hasChatTemplate": facts.has_chat_template,
        "largestSize": facts.encoder.most_tokens if facts.encoder is not None else 0,
        # The image encoder of a model with vision is opened by what reads images; the decoder comes last.
        "openedMethods": 1 if facts.vision is not None else len(facts.manifest.methods),
    }


def _decoder(facts: AppFacts, glue: Glue, slots: int) -> Section:
    if facts.texts is None:
        return {}
    chunk = {"prefillChunk": _static_chunk(facts)} if glue.static else {}
    return {
        **chunk,
        "systemPrompt": facts.texts.system_prompt,
        "slots": slots,
        "methodsShareState": glue.methods_share_state,
    }


def _slots(facts: AppFacts, glue: Glue) -> int:
    """Positions that may be written, including the padding of the last chunk."""
    full = [state.slots for state in facts.manifest.states if state.layout == "full"] if glue.static else []
    return min(full, default=facts.limits.context if facts.limits else 0)


def _static_chunk(facts: AppFacts) -> int:
    """The width of a static decoder's prefill."""
    prefill = next(method for method in facts.manifest.methods if method.name == "prefill")
    return next(int(tensor.shape[-1]) for tensor in prefill.inputs if tensor.name == "tokens")


def model_states(facts: AppFacts) -> str:
    """The source of ``ModelStates``: Core AI needs a separate property to lend each state from."""
    held = caller_states(facts.manifest)
    inside = [state for state in facts.manifest.states if state.name not in held]
    states = {f"state{index}": state for index, state in enumerate(inside)}
    kind = _SWIFT_TYPES.get(min((state.dtype for state in inside), default="float16"), "Float16")
    properties = "".join(f"    private var {name}: NDArray\n" for name in states)
    made = [f"        {name} = try descriptor.zeros({string(state.name)})\n" for name, state in states.items()]
    lent = [f"        views.insert(&{name}, for: {string(state.name)})\n" for name, state in states.items()]
    views = f"        {'var' if states else 'let'} views = InferenceFunction.MutableViews()\n"
    return _STATES.format(properties=properties, kind=kind, made="".join(made), views=views + "".join(lent))


_STATES = """import CoreAI

/// The states of the model, each in its own property, so that all can be lent to one call.
struct ModelStates {{
    typealias Element = {kind}
{properties}
    /// States of one function's shapes, filled with zeros.
    init(_ descriptor: InferenceFunctionDescriptor) throws {{
{made}        _ = descriptor
    }}

    /// Runs a function; returns its outputs by name, without those that are missing.
    mutating func run(
        _ function: InferenceFunction, _ inputs: [String: NDArray], _ names: [String]
    ) async throws -> [String: NDArray] {{
{views}        var outputs = try await function.run(inputs: inputs, states: consume views)
        var arrays: [String: NDArray] = [:]
        for name in names {{ arrays[name] = outputs.remove(name)?.ndArray }}
        return arrays
    }}
}}
"""
