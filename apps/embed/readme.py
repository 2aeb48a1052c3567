"""The README of a Swift package: how to embed it, what is checked, and what is still unconfirmed."""

from __future__ import annotations

from edgec.apps.embed import readme_texts as texts
from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.app_settings import entitlements, needs_more_memory
from edgec.apps.embed.glue import Glue, executorch_branch
from edgec.apps.embed.image_sections import swift_image_section
from edgec.apps.embed.readme_sections import (
    audio_readme_values,
    key_section,
    swift_reply_section,
    swift_schema_section,
)
from edgec.apps.embed.swift_engine import c_target
from edgec.apps.embed.swift_facts import bundle_folder
from edgec.apps.embed.swift_manifest import tokenizers_version
from edgec.apps.embed.template_text import READMES, fill, load, module_name
from edgec.installation import __version__


def readme(facts: AppFacts, glue: Glue) -> str:
    """The text of a package's README.md."""
    manifest = facts.manifest
    values = {
        "module": module_name(facts),
        "title": plain(manifest.name),
        "format_text": plain(str(manifest.format)),
        "recipe_text": plain(manifest.recipe_name),
        "edgec_version": __version__,
        "steps": "\n".join(f"{number}. {step}" for number, step in enumerate(_steps(facts, glue), 3)),
        "model_class": "EdgecModel" if facts.audio is None else "EdgecTranscriber",
        "answered": texts.ANSWERED if facts.texts is not None else "",
        "example": _example(facts),
        "minimum_os": ".".join(map(str, glue.minimum_os)),
        "digest_text": plain(manifest.digest),
        "needed_mb": f"{facts.needed_bytes / 1e6:,.1f}",
        "golden": _golden(facts),
        "engine": _engine(facts, glue),
        "images": swift_image_section(facts),
        "schemas": swift_schema_section(facts),
        "replies": swift_reply_section(facts),
        "foundation": texts.FOUNDATION if facts.has_chat_template else "",
        "key": key_section(facts, "PinnedKey.swift", "`LoadOptions(bundle:)`"),
        "sample": _sample(facts),
        "limits": _limits(facts),
        "delivery": _delivery(facts),
        "bench": _bench(facts),
        "open": "\n".join(f"- {line}" for line in _open(facts, glue)),
    }
    return fill(load(READMES, "swift.md"), values)


def _sample(facts: AppFacts) -> str:
    if facts.audio is not None:
        return texts.TRANSCRIBE
    return "" if facts.texts is None else texts.SAMPLE + (texts.PICTURES if facts.vision is not None else "")


def _engine(facts: AppFacts, glue: Glue) -> str:
    """What the package compiles of edgec's engine, and where adapters come from."""
    if not glue.engine:
        return _sense(facts, glue) + _own_adapters(facts)
    text = fill(texts.ENGINE, {"module": module_name(facts), "branch": _branch(facts)})
    return text + texts.ADAPTERS if facts.texts is not None else text


def _sense(facts: AppFacts, glue: Glue) -> str:
    """What the package compiles of edgec's engine where Core ML runs the artifact."""
    made = c_target(facts, glue)
    if made is None:
        return ""
    names = [f"`{method.name}`" for method in facts.manifest.methods]
    values = {
        "sense": "VisionInput" if facts.vision is not None else "AudioInput",
        "functions": f"{', '.join(names[:-1])} and {names[-1]}",
        "target": made.module,
        "does": made.sense,
    }
    return fill(texts.SENSES, values)


def _own_adapters(facts: AppFacts) -> str:
    names = [adapter.name for adapter in facts.manifest.adapters]
    return texts.OWN_ADAPTERS.format(names=", ".join(names), first=names[0]) if names else ""


def _branch(facts: AppFacts) -> str:
    return plain(executorch_branch(facts.manifest.runtime.version))


def plain(text: str) -> str:
    """The text without characters that could end a one-line code span."""
    return "".join(character if character.isprintable() and character != "`" else "?" for character in text)


def _steps(facts: AppFacts, glue: Glue) -> list[str]:
    module, steps = module_name(facts), []
    if glue.products:
        steps.append("Keep `-all_load` in the app's linker flags: ExecuTorch's backends register themselves at start.")
    if needs_more_memory(facts):
        steps.append(
            f"Take the keys of `Config/{module}.entitlements` into the app's own entitlements: the model may need more "
            "memory than the system grants an app."
        )
    elif entitlements(facts) is not None:
        steps.append(f"Take the keys of `Config/{module}.entitlements` into the app's own entitlements.")
    if facts.in_asset_pack:
        steps.append("Deliver the model as an asset pack, see below.")
    return steps


def _example(facts: AppFacts) -> str:
    if facts.audio is not None:
        return texts.TRANSCRIBED
    if facts.encoder is not None:
        return 'let vectors = try await model.embed(["A red ball.", "The big dog."])  // an [Float] each'
    if facts.texts is None:
        return "// One `predict` function per method of the model: see EdgecModule.swift."
    call = 'messages: [ChatMessage(.user, "Hello")]' if facts.texts.chat_template else 'prompt: "Once upon a time"'
    return f'for try await piece in model.generate({call}) {{\n    print(piece, terminator: "")\n}}'


def _golden(facts: AppFacts) -> str:
    if facts.audio is not None:
        return f"token ids of texts in many scripts, and the tokens after a made-up sound;\n{texts.ACCEPTED}"
    if facts.encoder is not None:
        return f"token ids of texts in many scripts, and values of a vector;\n{texts.ACCEPTED}"
    if facts.texts is None:
        return "values of the outputs for inputs that every language can compute alike"
    return (
        "token ids of texts in many scripts, the chat template where there is one, and a greedy continuation;\n"
        f"{texts.ACCEPTED}"
    )


def _limits(facts: AppFacts) -> str:
    limits = facts.limits
    if facts.audio is not None:
        return fill(texts.SPEECH, audio_readme_values(facts.audio))
    if facts.encoder is not None:
        return texts.TEXTS.format(most=facts.encoder.most_tokens)
    if limits is None or facts.texts is None:
        return "## Limits\n\nShapes are fixed; each parameter's documentation states its own.\n"
    lines = [f"Prompt and answer share a context of {limits.context:,} tokens (`ModelLimits`)."]
    if facts.texts.system_prompt is not None:
        lines.append(
            "The bundle's system prompt begins every conversation; its KV state is computed in the first one\nand "
            "kept. This package does not read the state in `prefix/`."
        )
    return "## Limits\n\n" + "\n".join(lines) + "\n"


def _delivery(facts: AppFacts) -> str:
    if not facts.in_asset_pack:
        return f"## Delivery\n\nThe bundle ({facts.shipped_bytes / 1e6:,.1f} MB) is a resource of the package.\n"
    return (
        f"## Delivery\n\nThe bundle has {facts.shipped_bytes / 1e6:,.0f} MB, more than an app should hold, so it is "
        "an asset pack that\nthe system downloads with the app (Background Assets, iOS 26 or newer):\n\n"
        "1. `cd AssetPack && xcrun ba-package package Manifest.json --output-path model.aar` (Xcode 26:\n"
        "   `xcrun ba-package Manifest.json -o model.aar`), then upload the archive to App Store Connect.\n"
        "2. Add a Background Download extension (Xcode's template: Apple-Hosted, Managed) and an app group that app\n"
        "   and extension share.\n"
        "3. Merge `Config/BackgroundAssets-Info.plist` into the app's Info.plist; replace the group's name there and\n"
        "   in the entitlements.\n\n"
        f"While developing, or below iOS 26, give `LoadOptions(bundle:)` the folder `{bundle_folder(facts)}`.\n"
    )


def _bench(facts: AppFacts) -> str:
    if facts.texts is None:
        return ""
    return (
        "## Measure\n\n`Bench/EdgecBench.xcodeproj` is an app that reads `Documents/job.json` (see `Bench/job.json`;\n"
        "`device` is the address that edgec uses) and writes `Documents/result.jsonl`, the records of `edgec bench`.\n"
        "Put the job there and fetch the result with Finder, or:\n\n"
        "    xcrun devicectl device copy to --device UDID --domain-type appDataContainer \\\n"
        f"        --domain-identifier org.example.{module_name(facts)}.bench \\\n"
        "        --source Bench/job.json --destination Documents/job.json\n\n"
        "Without a job the app writes `Documents/error.txt`."
        f"{texts.BENCH_FOLDER if facts.in_asset_pack else ''}\n"
    )


def _open(facts: AppFacts, glue: Glue) -> list[str]:
    lines = ["that the sources compile and link", f"memory in use, {_speed(facts)}"]
    if facts.target.unit == "npu":
        lines.append("that the Neural Engine executes the operators that edgec made for it")
    if glue.products:
        lines.append(f"that ExecuTorch's branch `{_branch(facts)}` resolves")
    if facts.has_tokenizer:
        lines.append(f"that swift-transformers ({tokenizers_version()} or a later 1.x) gives every golden text its ids")
    if facts.has_chat_template:
        lines.append("that `LanguageModelSession` of iOS 27 takes `FoundationModel`, which ran over a stand-in alone")
    if facts.vision is not None:
        lines.append("that ImageIO and vImage give images their colours, which were read over stand-ins alone")
        if not glue.engine:
            lines.append("that Core ML runs `see` beside the decoder, whose calls a stand-in compared with Python's")
    if facts.audio is not None and not glue.engine:
        lines.append("that Core ML runs the functions, whose calls a stand-in compared with Python's")
    if glue.static and not glue.methods_share_state and facts.texts is not None:
        lines.append(
            "whether ExecuTorch lets prefill and decode share a state: it gives each method's delegate its own, so\n"
            "  this package feeds every token through decode and the time to first token grows with the prompt"
        )
    return lines


def _speed(facts: AppFacts) -> str:
    """What is measured of a kind of model."""
    if facts.audio is not None:
        return "seconds of sound for each second of work, and recording"
    return "time per text" if facts.encoder is not None else "time to first token, tokens per second"
