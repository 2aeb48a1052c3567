"""The placeholders of the Kotlin templates, filled from a bundle's facts."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.audio_facts import audio_values
from edgec.apps.embed.bundle_interface import interface
from edgec.apps.embed.chat_prompt import ChatPrompt, kotlin_chat
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.encoder_facts import Literals, encoder_values
from edgec.apps.embed.kotlin_text import boolean, optional, package_name, string, table
from edgec.apps.embed.number_text import INT_BITS, integer, integers, single
from edgec.apps.embed.reply_constants import kotlin_replies
from edgec.apps.embed.sample_pieces import kotlin_sample
from edgec.apps.embed.schema_constants import kotlin_schemas
from edgec.apps.embed.template_text import manifest_values
from edgec.apps.embed.vision_facts import vision_values
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.installation import __version__

BUNDLE_FOLDER = "model.edgec"
_KEY_HASHES = {"P-256": "SHA256", "P-384": "SHA384", "P-521": "SHA512"}
_LITERALS = Literals(string, optional, table)


def kotlin_values(facts: AppFacts, prompt: ChatPrompt) -> Mapping[str, str]:
    """The text for every placeholder of the Kotlin templates."""
    if facts.audio is not None:
        return {**_manifest_values(facts), **audio_values(facts.audio, INT_BITS), **kotlin_sample(facts)}
    if facts.encoder is not None:
        return {**_manifest_values(facts), **encoder_values(facts.encoder, INT_BITS, _LITERALS)}
    chat = {**kotlin_chat(prompt), "has_chat": boolean(renders_chat(facts, prompt))}
    values = {**_manifest_values(facts), **_decoder_values(facts), **chat, **_image_values(facts)}
    return {**values, **kotlin_sample(facts)}


def renders_chat(facts: AppFacts, prompt: ChatPrompt) -> bool:
    """Whether an app renders conversations of text: a model with vision also where its template reads parts alone."""
    return prompt.known or (facts.vision is not None and facts.replies.plain[0] is not None)


_WITHOUT_VISION: Mapping[str, str] = {
    "encode_messages": "tokenization.encode(opened(messages))",
    "encode_pieces": "tokenization.encode(messages, pieces, switches)",
    **dict.fromkeys(("begin_prompt", "begin_golden", "images_property", "images_parameter", "render_images"), ""),
}
_WITH_VISION: Mapping[str, str] = {
    "encode_messages": "seen(opened(messages))",
    "encode_pieces": "seen(messages, pieces)",
    "begin_prompt": "\n        session.begin(prompt) { context.ensureActive() }",
    "begin_golden": "\n        session.beginProbe(tokens)",
    "images_property": "\n * @property images what a user's message shows, in front of its text.",
    "images_parameter": "\n    val images: List<ModelImage> = listOf(),",
    "render_images": (
        "\n            repeat(message.images.size) {"
        '\n                text.append(join(last, "image", "")).append(VisionFacts.PLACEHOLDER)'
        '\n                last = "image"'
        "\n            }"
    ),
}


def _image_values(facts: AppFacts) -> Mapping[str, str]:
    """What the code of all decoders has in addition where the model takes images."""
    return (
        _WITHOUT_VISION if facts.vision is None else {**_WITH_VISION, **vision_values(facts.vision, INT_BITS, string)}
    )


def kotlin_calls_folder(facts: AppFacts) -> str:
    """The folder among the assets of what calls are held to; the assets of all modules of an app are one folder."""
    return f"{package_name(facts.manifest.name)}.{FOLDER}"


def _manifest_values(facts: AppFacts) -> Mapping[str, str]:
    return {
        **manifest_values(facts, BUNDLE_FOLDER, string),
        "banner": f"// Made by edgec {__version__} from a bundle; run `edgec embed` again instead of editing.",
        "package": package_name(facts.manifest.name),
        "files": "\n".join(
            f"        BundleFile({string(file.path)}, {integer(file.path, file.bytes)}L, {string(file.sha256)}),"
            for file in facts.files
        ),
        "methods": "\n".join(map(_method, facts.manifest.methods)),
        "key_hash": _KEY_HASHES[facts.key.curve if facts.key else "P-256"],
        "interface": "\n".join(
            f"        {string(name)} to {string(sha256)}," for name, sha256 in interface(facts.manifest).items()
        ),
        "operators": ", ".join(map(string, facts.manifest.runtime.operators)),
    }


def _method(method: MethodInfo) -> str:
    inputs, outputs = (", ".join(map(_tensor, tensors)) for tensors in (method.inputs, method.outputs))
    return f"        MethodFacts({string(method.name)}, listOf({inputs}), listOf({outputs})),"


def _tensor(tensor: TensorInfo) -> str:
    sizes = (size if isinstance(size, int) else -1 for size in tensor.shape)
    shape = "".join(f", {integer(tensor.name, size)}L" for size in sizes)
    return f"TensorFacts({string(tensor.name)}, {string(tensor.dtype)}{shape})"


def _decoder_values(facts: AppFacts) -> Mapping[str, str]:
    manifest, limits = facts.manifest, facts.limits
    assert facts.texts is not None and limits is not None  # gradle_modules refuses other models
    return {
        "context": integer("context", limits.context, INT_BITS),
        "prefill_chunk": integer("prefill_chunk", limits.prefill_chunk, INT_BITS),
        "vocabulary": integer("vocabulary", facts.vocabulary, INT_BITS),
        "stop_tokens": integers("eos_token_id", facts.texts.stop_tokens, INT_BITS),
        "repetition_penalty": single("repetition_penalty", facts.texts.repetition_penalty),
        "system_prompt_is_chat": boolean(facts.texts.system_prompt_form == "chat"),
        "can_rewind": boolean(all(state.layout == "full" for state in manifest.states)),
        "schemas": kotlin_schemas(facts),
        "calls_folder": string(kotlin_calls_folder(facts)),
        **kotlin_replies(facts.replies),
    }
