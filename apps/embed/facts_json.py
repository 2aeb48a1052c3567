"""``facts.json`` of a package: what its sources read at run time, in the form that Swift and Kotlin share."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from edgec.apps.embed.app_facts import AppFacts, TextFacts
from edgec.apps.embed.audio_facts import LONGEST_S, AudioFacts
from edgec.apps.embed.bundle_interface import interface
from edgec.apps.embed.encoder_facts import EncoderFacts
from edgec.apps.embed.number_types import integer, integers, single
from edgec.apps.embed.reply_values import reply_values
from edgec.apps.embed.vision_facts import VisionFacts
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.image_preparation import MAX_PIXELS, MAX_RATIO
from edgec.bundle.sentence_prompts import READ_ONLY

FACTS = "facts.json"
Section = Mapping[str, Any]


def facts_bytes(sections: Mapping[str, Section]) -> bytes:
    """The file's content; a lone half of a character becomes U+FFFD, since no language reads it."""
    text = json.dumps(sections, ensure_ascii=False, indent=1, allow_nan=False)
    return (re.sub("[\ud800-\udfff]", "\ufffd", text) + "\n").encode()


def model_sections(facts: AppFacts, bits: int, model: Section, decoder: Section) -> dict[str, Section]:
    """The sections of a bundle.

    Args:
        facts: about the bundle.
        bits: of the language's integers.
        model: what one platform's section of the model has in addition.
        decoder: likewise its section of a language model.

    Raises:
        InputError: E469, a number does not fit its type.
    """
    sections: dict[str, Section] = {"model": {**_model(facts), **model}, "key": _key(facts), "fit": _fit(facts)}
    if facts.audio is not None:
        return sections | {"speech": speech_values(facts.audio, bits)}
    if facts.encoder is not None:
        return sections | {"encoder": encoder_values(facts.encoder, bits)}
    if facts.texts is None:
        return sections
    sections |= {"decoder": {**_decoder(facts, facts.texts, bits), **decoder}, "replies": reply_values(facts.replies)}
    return sections if facts.vision is None else sections | {"vision": vision_values(facts.vision, bits)}


def _model(facts: AppFacts) -> Section:
    manifest = facts.manifest
    revision = f"@{manifest.model.revision}" if manifest.model.revision else ""
    return {
        "name": manifest.name,
        "digest": manifest.digest,
        "recipe": manifest.recipe_name,
        "target": manifest.target,
        "model": f"{manifest.model.name}{revision}",
        "parameters": integer("parameters", manifest.model.parameters),
        "format": str(manifest.format),
        "artifact": manifest.artifact.rstrip("/"),
        "artifactBytes": integer(manifest.artifact, facts.artifact_bytes),
        "runtime": manifest.runtime.name,
        "runtimeVersion": manifest.runtime.version,
        "neededBytes": integer("needed_bytes", facts.needed_bytes),
        "weightCopies": facts.weight_copies,
        "files": [
            {"path": file.path, "bytes": integer(file.path, file.bytes), "sha256": file.sha256} for file in facts.files
        ],
        "methods": list(map(_method, manifest.methods)),
    }


def _method(method: MethodInfo) -> Section:
    return {
        "name": method.name,
        "inputs": list(map(_tensor, method.inputs)),
        "outputs": list(map(_tensor, method.outputs)),
    }


def _tensor(tensor: TensorInfo) -> Section:
    """An input or output; -1 stands for a size that varies."""
    sizes = (size if isinstance(size, int) else -1 for size in tensor.shape)
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": integers(tensor.name, sizes)}


def _key(facts: AppFacts) -> Section:
    key = facts.key
    if key is None:
        return {"sha256": "", "der": "", "curve": "P-256"}
    return {"sha256": key.fingerprint, "der": b64encode(key.der).decode(), "curve": key.curve}


def _fit(facts: AppFacts) -> Section:
    """What another bundle than the package's has in common with it."""
    manifest = facts.manifest
    return {
        "interface": dict(interface(manifest)),
        "operators": list(manifest.runtime.operators),
        "systemPromptFile": manifest.prefix.text if manifest.prefix else "",
    }


def _decoder(facts: AppFacts, texts: TextFacts, bits: int) -> Section:
    limits = facts.limits
    assert limits is not None  # a model of texts has limits
    return {
        "context": integer("context", limits.context, bits),
        "prefillChunk": integer("prefill_chunk", limits.prefill_chunk, bits),
        "vocabulary": integer("vocabulary", facts.vocabulary, bits),
        "stopTokens": integers("eos_token_id", texts.stop_tokens, bits),
        "repetitionPenalty": single("repetition_penalty", texts.repetition_penalty),
        "systemPromptIsChat": texts.system_prompt_form == "chat",
        "canRewind": all(state.layout == "full" for state in facts.manifest.states),
    }


def vision_values(vision: VisionFacts, bits: int) -> Section:
    """The section of images."""
    counts = {
        "mostPixels": MAX_PIXELS,
        "mostRatio": MAX_RATIO,
        "tileTokens": vision.tile_tokens,
        "imageToken": vision.image_token,
        "goldenValues": vision.golden_values,
    }
    return {
        **{name: integer(name, value, bits) for name, value in counts.items()},
        "placeholder": vision.placeholder,
        "begins": vision.begins,
        "specialTokens": vision.special_tokens,
        "wholePrompt": vision.whole_prompt,
    }


def speech_values(audio: AudioFacts, bits: int) -> Section:
    """The section of speech."""
    counts = {
        "samplingRate": audio.sampling_rate,
        "windowSamples": audio.window_samples,
        "longestSeconds": LONGEST_S,
        "goldenValues": audio.golden_values,
    }
    return {**{name: integer(name, value, bits) for name, value in counts.items()}, "hasTimestamps": audio.timestamps}


def encoder_values(encoder: EncoderFacts, bits: int) -> Section:
    """The section of a sentence encoder."""
    counts = {
        "mostTokens": encoder.most_tokens,
        "padding": encoder.padding,
        "tokensBefore": encoder.before,
        "tokensAfter": encoder.after,
        "width": encoder.width,
    }
    prompts = encoder.prompts
    return {
        **{name: integer(name, value, bits) for name, value in counts.items()},
        "prompts": dict(prompts.prompts),
        "defaultPrompt": prompts.default_prompt,
        "unpooled": {name: integer("unpooled", count, bits) for name, count in prompts.unpooled.items()},
        "readOnly": READ_ONLY,
        "isPadded": encoder.padded,
        "cutsBeginning": encoder.cuts_beginning,
    }
