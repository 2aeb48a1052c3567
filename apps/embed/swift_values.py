"""The placeholders of the Swift templates, filled from a bundle's facts."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.apps.embed.app_facts import AppFacts, TextFacts
from edgec.apps.embed.audio_facts import audio_values
from edgec.apps.embed.bundle_interface import interface
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.encoder_facts import Literals, encoder_values
from edgec.apps.embed.glue import Glue, caller_states, executorch_branch
from edgec.apps.embed.number_text import LONG_BITS, integer, integers, single
from edgec.apps.embed.reply_constants import swift_replies
from edgec.apps.embed.sample_pieces import swift_sample
from edgec.apps.embed.schema_constants import swift_schemas
from edgec.apps.embed.swift_engine import c_target, c_target_values, executorch_product
from edgec.apps.embed.swift_text import boolean, optional, string, table
from edgec.apps.embed.template_text import manifest_values, module_name
from edgec.apps.embed.typed_predictions import predictions
from edgec.apps.embed.vision_pieces import swift_vision
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.manifest import FileInfo
from edgec.installation import __version__

_SWIFT_TYPES = {"float16": "Float16", "float32": "Float", "int32": "Int32", "int8": "Int8"}
_COMPUTE_UNITS = {"npu": ".cpuAndNeuralEngine", "gpu": ".cpuAndGPU", "cpu": ".cpuOnly"}
_EXECUTORCH = "https://github.com/pytorch/executorch.git"
_TOKENIZERS = "https://github.com/huggingface/swift-transformers.git"
TOKENIZERS_VERSION = "1.3.0"
_LITERALS = Literals(string, optional, table)


def bundle_folder(facts: AppFacts) -> str:
    """The name of the bundle's folder: all asset packs of an app share one root, a resource lies in its own package."""
    return f"{module_name(facts)}.edgec" if facts.in_asset_pack else "Model.edgec"


def swift_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    """The text for every placeholder of the Swift templates."""
    return {
        **_manifest_values(facts, glue),
        **_decoder_values(facts, glue),
        **_state_values(facts),
        **_package_values(facts, glue),
        **c_target_values(facts, glue),
        **_module_values(facts),
        **swift_vision(facts, glue),
        **swift_sample(facts),
    }


def _module_values(facts: AppFacts) -> Mapping[str, str]:
    """The placeholders of models that are not decoders: facts of speech or of an encoder, or typed functions."""
    if facts.audio is not None:
        return audio_values(facts.audio, LONG_BITS)
    if facts.encoder is not None:
        return {**encoder_values(facts.encoder, LONG_BITS, _LITERALS), "largest_size": str(facts.encoder.most_tokens)}
    return {"predictions": predictions(facts.manifest.methods) if facts.texts is None else "", "largest_size": "0"}


def _manifest_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    manifest = facts.manifest
    return {
        **manifest_values(facts, bundle_folder(facts), string),
        "banner": f"// Made by edgec {__version__} from a bundle; run `edgec embed` again instead of editing.\n"
        "// No Mac has compiled this source; edgec's tests compile it on Linux, over stand-ins for Apple's frameworks.",
        "runtime_version_text": _comment(manifest.runtime.version),
        "os_major": str(glue.minimum_os[0]),
        "os_minor": str(glue.minimum_os[1]),
        "asset_pack": optional(f"{module_name(facts)}-model" if facts.in_asset_pack else None),
        "files": "\n".join(map(_file, facts.files)),
        "methods": "\n".join(map(_method, manifest.methods)),
        "adapters": ", ".join(string(adapter.name) for adapter in manifest.adapters),
        "key_curve": (facts.key.curve if facts.key else "P-256").replace("-", ""),
        "interface": "\n".join(
            f"        {string(name)}: {string(sha256)}," for name, sha256 in interface(manifest).items()
        ),
        "operators": ", ".join(map(string, manifest.runtime.operators)),
        "compute_units": _COMPUTE_UNITS.get(facts.target.unit, ".all"),
    }


def _file(file: FileInfo) -> str:
    path, size = string(file.path), integer(file.path, file.bytes)
    return f"        BundleFile(path: {path}, bytes: {size}, sha256: {string(file.sha256)}),"


def _comment(text: str) -> str:
    """The text without characters that could end a line comment."""
    return "".join(character for character in text if character.isascii() and character.isprintable())


def _method(method: MethodInfo) -> str:
    inputs, outputs = ("\n".join(map(_tensor, tensors)) for tensors in (method.inputs, method.outputs))
    return (
        f"        MethodFacts(\n            name: {string(method.name)},\n"
        f"            inputs: [\n{inputs}\n            ],\n            outputs: [\n{outputs}\n            ]),"
    )


def _tensor(tensor: TensorInfo) -> str:
    shape = integers(tensor.name, (size if isinstance(size, int) else -1 for size in tensor.shape))
    name, dtype = string(tensor.name), string(tensor.dtype)
    return f"                TensorFacts(name: {name}, dtype: {dtype}, shape: [{shape}]),"


def _decoder_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    manifest, texts = facts.manifest, facts.texts or TextFacts((), 1.0, None, None, False)
    limits = facts.limits
    context = limits.context if limits else 0
    slots = [state.slots for state in manifest.states if state.layout == "full"] if glue.static else []
    return {
        "context": integer("context", context),
        "prefill_chunk": integer("prefill_chunk", _chunk(facts, glue)),
        "vocabulary": integer("vocabulary", facts.vocabulary if limits else 0),
        "stop_tokens": integers("eos_token_id", texts.stop_tokens),
        "repetition_penalty": single("repetition_penalty", texts.repetition_penalty),
        "system_prompt": optional(texts.system_prompt),
        "system_prompt_is_chat": boolean(texts.system_prompt_form == "chat"),
        "has_chat_template": boolean(texts.chat_template),
        "slots": integer("slots", min(slots, default=context)),
        "can_rewind": boolean(all(state.layout == "full" for state in manifest.states)),
        "methods_share_state": boolean(glue.methods_share_state),
        "schemas": swift_schemas(facts),
        "calls_folder": _calls_folder(facts),
        **swift_replies(facts.replies),
    }


def _calls_folder(facts: AppFacts) -> str:
    """Where the package finds what calls are held to; only a package with resources has ``Bundle.module``."""
    if facts.replies.held is None:
        return "nil"
    return f"Bundle.module.url(forResource: {string(FOLDER)}, withExtension: nil)"


def _chunk(facts: AppFacts, glue: Glue) -> int:
    """How many tokens one call takes; for a static decoder, the width of its prefill."""
    limits = facts.limits
    if limits is None:
        return 0
    if not glue.static:
        return limits.prefill_chunk
    prefill = next(method for method in facts.manifest.methods if method.name == "prefill")
    return next(int(tensor.shape[-1]) for tensor in prefill.inputs if tensor.name == "tokens")


def _state_values(facts: AppFacts) -> Mapping[str, str]:
    """The placeholders for states: Core AI needs a separate property to lend each state from."""
    held = caller_states(facts.manifest)
    inside = [state for state in facts.manifest.states if state.name not in held]
    states = [(f"state{index}", state) for index, state in enumerate(inside)]
    types = {state.dtype for _, state in states}
    views = [f"        views.insert(&{name}, for: {string(state.name)})" for name, state in states]
    return {
        "state_properties": "\n".join(f"    var {name}: NDArray" for name, _ in states),
        "state_initialisers": "\n".join(
            f"        {name} = try Self.zeros(descriptor, {string(state.name)})" for name, state in states
        ),
        "state_views": "\n".join(
            [f"        {'var' if states else 'let'} views = InferenceFunction.MutableViews()", *views]
        ),
        "state_type": _SWIFT_TYPES.get(next(iter(sorted(types)), "float16"), "Float16"),
    }


def _package_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    major, minor = glue.minimum_os
    packages: list[str] = []
    own = c_target(facts, glue)
    products = [f'                .target(name: "{own.module}"),'] if own is not None else []
    if glue.products:
        branch = string(executorch_branch(facts.manifest.runtime.version))
        packages.append(f'        .package(url: "{_EXECUTORCH}", branch: {branch}),')
        products += [] if glue.engine else map(executorch_product, glue.products)
    if facts.has_tokenizer:
        packages.append(f'        .package(url: "{_TOKENIZERS}", from: "{TOKENIZERS_VERSION}"),')
        products.append('                .product(name: "Transformers", package: "swift-transformers"),')
    copied = [] if facts.in_asset_pack else [bundle_folder(facts)]
    copied += [] if facts.replies.held is None else [FOLDER]
    resources = ", ".join(f'.copy("Resources/{name}")' for name in copied)
    return {
        "platforms": f'.iOS("{major}.{minor}")',
        "dependencies": "\n".join(packages),
        "products": "\n".join(products),
        "resources": f",\n            resources: [{resources}]" if copied else "",
        "cxx_standard": ",\n    cxxLanguageStandard: .cxx17" if own is not None else "",
    }
