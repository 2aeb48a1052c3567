"""The Gradle modules for an Android bundle: ``model`` (wrapper and bundle), ``bench``, and an AI pack where needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgec.apps.embed.android_readme import android_readme
from edgec.apps.embed.android_runtimes import dependencies, runtime_of
from edgec.apps.embed.app_facts import AppFacts, app_facts
from edgec.apps.embed.chat_prompt import ChatPrompt, chat_prompt
from edgec.apps.embed.constrained_calls import HoldCalls
from edgec.apps.embed.engine_project import engine_pages, engine_project
from edgec.apps.embed.gradle_values import gradle_values
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.kotlin_values import BUNDLE_FOLDER, kotlin_calls_folder, kotlin_values, renders_chat
from edgec.apps.embed.page_sizes import ASKED_FROM_SDK, android_project, check_page_sizes, library_pages
from edgec.apps.embed.sample_pieces import kotlin_sources
from edgec.apps.embed.schema_constants import kotlin_schemas
from edgec.apps.embed.template_text import fill, load
from edgec.apps.embed.tokenizer_plan import TokenizerPlan, tokenizer_plan
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.folder import Bundle
from edgec.bundle.prefix import Files
from edgec.bundle.signing_keys import PublicKey
from edgec.bundle.tools import Tool
from edgec.errors import InputError
from edgec.installation import __version__

_TEMPLATES = "edgec.apps.android"
_SYSTEMS = {26: "8.0", 27: "8.1"}
_SHARED = (
    *("BundleDownload", "BundleFiles", "BundleFit", "DownloadFolder", "EdgecException", "LoadStep", "MemoryCheck"),
    *("ModelFacts", "PartFetch", "PartsList", "PinnedKey", "SignatureFile", "SignedBundle"),
)
_REPLIES = (
    *("CallBodies", "GemmaCall", "JsonText", "PythonCalls", "PythonStrings"),
    *("ConstrainedCalls", "Reply", "ReplyFacts", "ReplyReader", "ThinkingRule"),
)
_DECODER = (
    *_REPLIES,
    "DecoderFacts",
    "EdgecModel",
    "GoldenReplay",
    "GoldenTexts",
    "Sampling",
    "Schemas",
    "Scores",
    "Session",
    "TextStream",
    "Timings",
    "Tokenization",
    *("ChatPrompt", "PromptClock", "TemplateFilters", "TemplateProgram", "TemplateValues"),
)
_ENCODER = ("EdgecEncoder", "EncoderFacts", "GoldenEncoder", "TextEncoder")
_VISION = ("ImageHeader", "ImageReader", "Images", "Vision", "VisionFacts")
_HEARING = ("EdgecTranscriber", "GoldenSpeech", "GoldenTexts", "SpeechFacts", "TextStream", "Transcript")
TOKENIZER = (
    "AddedTokens",
    "CharacterClasses",
    "Decoders",
    "MergeTable",
    "Normalizers",
    "Splitters",
    "Tokenizer",
    "TokenizerFile",
    "TokenizerSteps",
)
_BENCH = ("BenchActivity", "BenchRecords")
_JOB = {
    "device": "adb:SERIAL",
    "prompt_tokens": 128,
    "new_tokens": 64,
    "warmups": 3,
    "repetitions": 5,
    "loads": 3,
    "sustained_seconds": 0,
}
_JOB_FILE: Files = {"bench/job.json": (json.dumps({**_JOB, "edgec_version": __version__}, indent=2) + "\n").encode()}


def gradle_modules(
    bundle: Bundle,
    target_sdk: int = ASKED_FROM_SDK,
    key: PublicKey | None = None,
    tools: Sequence[Tool] = (),
    hold: HoldCalls | None = None,
) -> AppPackage:
    """The Gradle modules of an Android bundle.

    Args:
        bundle: opened.
        target_sdk: of the app.
        key: by which the app loads other bundles, too.
        tools: what the model may call.
        hold: compiles what edgec's engine holds calls to.

    Raises:
        InputError: E460 another system's bundle, E462 no tokenizer, E463 unreadable files, E464 no glue fits, E469 a
            number without a literal, E470 or E741 a tokenizer that the app does not support, E471 native libraries that
            Google Play refuses, E472 ``target_sdk``, E755 a text that the app's engine cannot write, E760 or E761 tools
            that do not fit, E780 images that it cannot prepare, and what ``hold`` raises.
    """
    _check_target(target_sdk)
    facts = app_facts(bundle, "android", key, tools, hold)
    _check(facts)
    runtime = runtime_of(facts)
    libraries = library_pages(dependencies(runtime, facts.manifest))
    check_page_sizes(libraries, bundle, target_sdk)
    compiled = [engine_pages(facts)] if runtime.compiled else []
    assert bundle.tokenizer_dir is not None  # app_facts refuses decoders and encoders without one
    seeing = facts.vision is not None
    prompt = chat_prompt(bundle.tokenizer_dir, in_parts=seeing) if facts.texts is not None else ChatPrompt()
    tokenizer = tokenizer_plan(bundle.tokenizer_dir / "tokenizer.json")
    values = {**kotlin_values(facts, prompt), **gradle_values(facts, target_sdk), **tokenizer.values}
    contents: Files = {
        **{path: fill(load(_TEMPLATES, name), values).encode() for path, name in _places(facts, tokenizer).items()},
        **(engine_project(facts) if runtime.compiled else {}),
        "README.md": android_readme(facts, renders_chat(facts, prompt), [*libraries, *compiled], target_sdk).encode(),
        **(_JOB_FILE if facts.texts is not None else {}),
        **_assets(facts, bundle),
        **_held(facts),
    }
    return AppPackage(
        platform="android",
        module=package_name(facts.manifest.name),
        files=contents,
        format=str(facts.manifest.format),
        minimum_os=_SYSTEMS[int(values["minimum_sdk"])],
        needed_bytes=facts.needed_bytes,
        asset_pack=facts.in_asset_pack,
        entitled=False,
        executables=frozenset({"gradlew"}),
        key_sha256=key.fingerprint if key else None,
    )


def _assets(facts: AppFacts, bundle: Bundle) -> dict[str, Path]:
    """The bundle's files by their paths in the modules."""
    assets = f"{'model_pack' if facts.in_asset_pack else 'model'}/src/main/assets/{BUNDLE_FOLDER}"
    return {f"{assets}/{name}": bundle.path / name for name in facts.shipped_names}


def _held(facts: AppFacts) -> Files:
    """What calls are held to, by its paths in the modules."""
    held, folder = facts.replies.held, f"model/src/main/assets/{kotlin_calls_folder(facts)}"
    return {} if held is None else {f"{folder}/{name}": content for name, content in held.files.items()}


def _check_target(target_sdk: int) -> None:
    versions = android_project()["versions"]
    oldest, newest = versions["minimum_sdk"], versions["compile_sdk"]
    if not oldest <= target_sdk <= newest:
        why = f"the project is compiled for {newest} and runs from {oldest} on"
        fix = f"use a number from {oldest} to {newest}; Google Play requires {ASKED_FROM_SDK}"
        raise InputError(f"the target SDK {target_sdk} is out of range", "--target-sdk", why, fix, "E472")


def _check(facts: AppFacts) -> None:
    if not facts.has_tokenizer:
        why = "the Kotlin wrapper is for language models, sentence encoders and models that transcribe speech"
        fix = "call the runtime's own classes yourself"
        raise InputError("no app glue fits this bundle", facts.manifest.name, why, fix, "E464")


def _places(facts: AppFacts, tokenizer: TokenizerPlan) -> dict[str, str]:
    """Path in the modules -> name of the template that is written there."""
    folder = package_name(facts.manifest.name).replace(".", "/")
    model = f"model/src/main/kotlin/{folder}"
    places = {
        "settings.gradle.kts": "settings.gradle.kts",
        "build.gradle.kts": "build.gradle.kts",
        "gradle.properties": "gradle.properties",
        "gradlew": "gradlew",
        "gradle/wrapper/gradle-wrapper.properties": "gradle-wrapper.properties",
        "model/build.gradle.kts": "model.gradle.kts",
        "model/consumer-rules.pro": "consumer-rules.pro",
        "model/src/main/AndroidManifest.xml": "model.AndroidManifest.xml",
        **{f"{model}/{name}.kt": f"{name}.kt" for name in (*_SHARED, *_own(facts), *TOKENIZER, tokenizer.model)},
        **{f"{model}/{name}.kt": f"{source}.kt" for name, source in runtime_of(facts).sources(facts).items()},
        **_apps(facts, folder),
        **(_values_of_schemas(folder) if kotlin_schemas(facts) else {}),
    }
    return {**places, "model_pack/build.gradle.kts": "pack.gradle.kts"} if facts.in_asset_pack else places


def _values_of_schemas(folder: str) -> dict[str, str]:
    """The places of the module that decodes answers, apart from the model, which depends on no JSON library."""
    source = f"model_json/src/main/kotlin/{folder}/json/SchemaValues.kt"
    return {"model_json/build.gradle.kts": "json.gradle.kts", source: "SchemaValues.kt"}


def _own(facts: AppFacts) -> tuple[str, ...]:
    """The templates of the bundle's kind of model."""
    if facts.audio is not None:
        return _HEARING
    if facts.encoder is not None:
        return _ENCODER
    return _DECODER if facts.vision is None else (*_DECODER, *_VISION)


def _apps(facts: AppFacts, folder: str) -> dict[str, str]:
    """The places of the apps next to the model, and of the check of what the first is built into."""
    names = kotlin_sources(facts)
    sample = _app("sample", folder, names) if names else {}
    if facts.texts is None:
        return sample
    return {
        "buildSrc/build.gradle.kts": "buildSrc.gradle.kts",
        "buildSrc/src/main/java/dev/edgec/PageSizeCheck.java": "PageSizeCheck.java",
        **_app("bench", folder, _BENCH),
        **sample,
    }


def _app(app: str, folder: str, names: Sequence[str]) -> dict[str, str]:
    """The places of an app's module with the sources that are named."""
    return {
        f"{app}/build.gradle.kts": f"{app}.gradle.kts",
        f"{app}/src/main/AndroidManifest.xml": f"{app}.AndroidManifest.xml",
        **{f"{app}/src/main/kotlin/{folder}/{app}/{name}.kt": f"{name}.kt" for name in names},
    }
