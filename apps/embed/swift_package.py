"""The Swift package for an iOS bundle: sources, settings and a bench app, by their paths inside the package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgec.apps.embed.app_facts import AppFacts, app_facts
from edgec.apps.embed.app_settings import (
    asset_pack_manifest,
    background_assets_plist,
    bench_entitlements,
    entitlements,
    xcconfig,
)
from edgec.apps.embed.constrained_calls import FOLDER, HoldCalls
from edgec.apps.embed.facts_json import FACTS
from edgec.apps.embed.glue import Glue, glue_for
from edgec.apps.embed.project import MODULE, SWIFT, Project
from edgec.apps.embed.readme import readme
from edgec.apps.embed.schema_constants import swift_schemas
from edgec.apps.embed.swift_engine import c_target_files
from edgec.apps.embed.swift_facts import bundle_folder, model_states, swift_facts
from edgec.apps.embed.swift_manifest import MANIFEST, package_manifest
from edgec.apps.embed.template_text import module_name
from edgec.apps.embed.typed_predictions import predictions
from edgec.apps.embed.written_package import AppPackage
from edgec.apps.embed.xcode_project import BENCH, xcode_project
from edgec.bundle.folder import Bundle
from edgec.bundle.prefix import Files
from edgec.bundle.signing_keys import PublicKey
from edgec.bundle.tools import Tool
from edgec.installation import __version__

_BANNER = (
    f"// Made by edgec {__version__} from a bundle; run `edgec embed` again instead of editing.\n"
    "// No Mac has compiled this source; edgec's tests compile it on Linux, over stand-ins for Apple's frameworks.\n"
)
_MICROPHONE = {"INFOPLIST_KEY_NSMicrophoneUsageDescription": "What you say is written down on this device."}
_JOB = {
    "device": "ios:UDID",
    "prompt_tokens": 128,
    "new_tokens": 64,
    "warmups": 3,
    "repetitions": 5,
    "loads": 3,
    "sustained_seconds": 0,
}


def swift_package(
    bundle: Bundle, key: PublicKey | None = None, tools: Sequence[Tool] = (), hold: HoldCalls | None = None
) -> AppPackage:
    """The Swift package for an iOS bundle.

    Args:
        bundle: opened.
        key: by which the app loads other bundles, too.
        tools: what a language model may call.
        hold: compiles what edgec's engine holds calls to.

    Raises:
        InputError: E460 another system's bundle, E462 no tokenizer, E463 unreadable files, E464 no glue fits, E465 no
            typed function, E469 a number without a literal, E741 a sentence encoder's tokenizer that the app cannot
            follow, E755 a text that the app's engine cannot write, E760 or E761 tools that do not fit, E770 or E780
            images that the app cannot prepare, and what ``hold`` raises.
    """
    facts = app_facts(bundle, "ios", key, tools, hold)
    glue = glue_for(facts)
    module = module_name(facts)
    project = Project(SWIFT, _BANNER, {MODULE: module})
    folders = [f"Sources/{MODULE}/{name}" for name in _sources(facts, glue)]
    sources = {Path(path).name: project.copied(path) for path in project.files(folders)}
    texts: Files = {
        MANIFEST: package_manifest(facts, glue),
        "README.md": readme(facts, glue).encode(),
        **{f"Sources/{module}/{name}": content for name, content in {**sources, **_generated(facts, glue)}.items()},
        f"Sources/{module}/Resources/{FACTS}": swift_facts(facts, glue),
        **_settings(facts, glue),
        **c_target_files(facts, glue, project),
        **_apps(facts, glue, project),
    }
    shipped = {f"{_resource_folder(facts)}/{name}": bundle.path / name for name in facts.shipped_names}
    return AppPackage(
        platform="ios",
        module=module,
        files={**texts, **shipped, **_held(facts)},
        format=str(facts.manifest.format),
        minimum_os=f"{glue.minimum_os[0]}.{glue.minimum_os[1]}",
        needed_bytes=facts.needed_bytes,
        asset_pack=facts.in_asset_pack,
        entitled=entitlements(facts) is not None,
        key_sha256=key.fingerprint if key else None,
    )


def _held(facts: AppFacts) -> Files:
    """What calls are held to, by its paths inside the package."""
    held, folder = facts.replies.held, f"Sources/{module_name(facts)}/Resources/{FOLDER}"
    return {} if held is None else {f"{folder}/{name}": content for name, content in held.files.items()}


def _generated(facts: AppFacts, glue: Glue) -> dict[str, bytes]:
    """The sources that are made for a bundle, since Swift wants its names and types."""
    constants = swift_schemas(facts)
    made = {
        "SchemaNames.swift": f"extension ModelSchema {{{constants}\n}}\n" if constants else "",
        "Predictions.swift": predictions(facts.manifest.methods) if not facts.has_tokenizer else "",
        "ModelStates.swift": model_states(facts) if glue.runtime == "RuntimeCoreAI" else "",
    }
    return {name: (_BANNER + text).encode() for name, text in made.items() if text}


def sample(facts: AppFacts) -> tuple[str, tuple[str, ...]] | None:
    """The name of the sample's app, and the folders of its sources; None where there is no sample."""
    if facts.audio is not None:
        return "EdgecTranscribe", ("Sample/EdgecTranscribe", "Sample/Shared")
    if facts.texts is None:
        return None
    return "EdgecChat", (
        "Sample/EdgecChat",
        "Sample/Shared",
        "Sample/Text" if facts.vision is None else "Sample/Vision",
    )


def _sources(facts: AppFacts, glue: Glue) -> tuple[str, ...]:
    """The folders of the module's sources that a bundle needs."""
    where = "AssetPack" if facts.in_asset_pack else "Resource"
    if facts.audio is not None:
        executes = ("EngineSpeech",) if glue.engine else (glue.runtime, "StaticSpeech")
        return ("Shared", where, "EngineCall", "Texts", "Speech", *executes)
    engine = ("EngineCall",) if glue.engine else ()
    if facts.texts is None:
        own: tuple[str, ...] = ("GoldenFunctions", "Module" if facts.encoder is None else "Encoder")
    else:
        own = ("Texts", "Decoder", glue.decoder, *_session(facts, glue))
    return ("Shared", where, glue.runtime, *engine, *own, *(["Foundation"] if facts.has_chat_template else []))


def _session(facts: AppFacts, glue: Glue) -> tuple[str, ...]:
    """What feeds the decoder: text alone, or images as well."""
    if facts.vision is None:
        return ("TextSession",)
    return ("Vision", "EngineVision") if glue.engine else ("Vision", "EngineCall", "StaticVision")


def _resource_folder(facts: AppFacts) -> str:
    place = "AssetPack" if facts.in_asset_pack else f"Sources/{module_name(facts)}/Resources"
    return f"{place}/{bundle_folder(facts)}"


def _settings(facts: AppFacts, glue: Glue) -> Files:
    module, rights = module_name(facts), entitlements(facts)
    files: Files = {f"Config/{module}.xcconfig": xcconfig(facts, glue).encode()}
    if rights is not None:
        files[f"Config/{module}.entitlements"] = rights
    if facts.in_asset_pack:
        files["AssetPack/Manifest.json"] = asset_pack_manifest(facts)
        files["Config/BackgroundAssets-Info.plist"] = background_assets_plist(facts)
    return files


def _apps(facts: AppFacts, glue: Glue, project: Project) -> Files:
    """The apps next to the package, and the job of the one that measures."""
    made = sample(facts)
    files = _app("Sample", made[0], made[1], facts, glue, project) if made is not None else {}
    if facts.texts is None:
        return files
    job = json.dumps({**_JOB, "edgec_version": __version__}, indent=2) + "\n"
    bench = _app("Bench", BENCH, (f"Bench/{BENCH}",), facts, glue, project)
    return {"Bench/job.json": job.encode(), **bench, **files}


def _app(folder: str, app: str, folders: Sequence[str], facts: AppFacts, glue: Glue, project: Project) -> Files:
    """An app in a folder of the package: sources, project, entitlements where needed."""
    module, rights = module_name(facts), bench_entitlements(facts)
    sources = {Path(path).name: project.copied(path) for path in project.files(folders)}
    xcode = xcode_project(
        app,
        module,
        list(sources),
        f"../Config/{module}.xcconfig",
        glue.minimum_os,
        entitlements=f"{app}.entitlements" if rights is not None else None,
        folder=f"../{_resource_folder(facts)}" if facts.in_asset_pack else None,
        stated=_MICROPHONE if facts.audio is not None else {},
    )
    return {
        f"{folder}/{app}.xcodeproj/project.pbxproj": xcode,
        **({f"{folder}/{app}.entitlements": rights} if rights is not None else {}),
        **{f"{folder}/{app}/{name}": content for name, content in sources.items()},
    }
