"""The placeholders of the Kotlin templates, filled from a bundle's facts."""

from __future__ import annotations

from collections.abc import Mapping

from edgec import __version__
from edgec.exporter.bundle.manifest import MethodInfo, TensorInfo
from edgec.exporter.embed.app_facts import AppFacts
from edgec.exporter.embed.chat_pieces import ChatPieces
from edgec.exporter.embed.kotlin_text import boolean, package_name, string
from edgec.exporter.embed.manifest_values import manifest_values
from edgec.exporter.embed.swift_text import numbers

BUNDLE_FOLDER = "model.edgec"
_NO_PIECES = ChatPieces("", "", {}, False)


def kotlin_values(facts: AppFacts, pieces: ChatPieces | None) -> Mapping[str, str]:
    """Every placeholder with its text."""
    return {**_manifest_values(facts), **_decoder_values(facts), **_chat_values(pieces)}


def _manifest_values(facts: AppFacts) -> Mapping[str, str]:
    return {
        **manifest_values(facts, BUNDLE_FOLDER, string),
        "banner": f"// Made by edgec {__version__} from a bundle; run `edgec embed` again instead of editing.",
        "package": package_name(facts.manifest.name),
        "files": "\n".join(
            f"        BundleFile({string(file.path)}, {file.bytes}L, {string(file.sha256)})," for file in facts.files
        ),
        "methods": "\n".join(map(_method, facts.manifest.methods)),
    }


def _method(method: MethodInfo) -> str:
    inputs, outputs = (", ".join(map(_tensor, tensors)) for tensors in (method.inputs, method.outputs))
    return f"        MethodFacts({string(method.name)}, listOf({inputs}), listOf({outputs})),"


def _tensor(tensor: TensorInfo) -> str:
    shape = "".join(f", {size if isinstance(size, int) else -1}L" for size in tensor.shape)
    return f"TensorFacts({string(tensor.name)}, {string(tensor.dtype)}{shape})"


def _decoder_values(facts: AppFacts) -> Mapping[str, str]:
    manifest, limits = facts.manifest, facts.manifest.limits
    assert facts.texts is not None and limits is not None  # gradle_modules refuses other models
    return {
        "context": str(limits.context),
        "prefill_chunk": str(limits.prefill_chunk),
        "vocabulary": str(facts.vocabulary),
        "stop_tokens": numbers(facts.texts.stop_tokens),
        "repetition_penalty": repr(facts.texts.repetition_penalty),
        "system_prompt_file": string(manifest.prefix.text if manifest.prefix else ""),
        "system_prompt_is_chat": boolean(facts.texts.system_prompt_form == "chat"),
        "can_rewind": boolean(all(state.layout == "full" for state in manifest.states)),
    }


def _chat_values(pieces: ChatPieces | None) -> Mapping[str, str]:
    found = pieces or _NO_PIECES
    rows = [
        f"        {string(role)} to Pair({string(before)}, {string(after)}),"
        for role, (before, after) in found.around.items()
    ]
    return {
        "chat_known": boolean(pieces is not None),
        "chat_opening": string(found.opening),
        "chat_answer": string(found.answer),
        "chat_trims": boolean(found.trims),
        "chat_around": "\n".join(rows or ['        "" to Pair("", ""),']),
    }
