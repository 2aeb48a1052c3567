"""The Gradle modules for an Android bundle: ``model`` (wrapper and bundle), ``bench``, and an AI pack where needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
from edgec.apps.embed.project import ANDROID, MODULE, PACKAGE, Project
from edgec.apps.embed.sample_pieces import kotlin_sources
from edgec.apps.embed.schema_constants import kotlin_schemas
from edgec.apps.embed.template_text import module_name
from edgec.apps.embed.tokenizer_plan import tokenizer_plan
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.folder import Bundle
from edgec.bundle.prefix import Files
from edgec.bundle.signing_keys import PublicKey
from edgec.bundle.tools import Tool
from edgec.errors import InputError
from edgec.installation import __version__

_SYSTEMS = {26: "8.0", 27: "8.1"}
_JOB = {
    "device": "adb:SERIAL",
    "prompt_tokens": 128,
    "new_tokens": 64,
    "warmups": 3,
    "repetitions": 5,
    "loads": 3,
    "sustained_seconds": 0,
}
_MANIFEST = "src/main/AndroidManifest.xml"
_SCRIPTS = (
    *("settings.gradle.kts", "build.gradle.kts", "gradle.properties", "gradlew"),
    "gradle/wrapper/gradle-wrapper.properties",
    *("model/build.gradle.kts", "model/consumer-rules.pro", f"model/{_MANIFEST}"),
)
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
    project = _project(facts, values)
    contents: Files = {
        **{_place(project.named(path)): project.copied(path) for path in _paths(facts, project)},
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


def _project(facts: AppFacts, values: Mapping[str, str]) -> Project:
    package = package_name(facts.manifest.name)
    names = {PACKAGE: package, PACKAGE.replace(".", "/"): package.replace(".", "/"), MODULE: module_name(facts)}
    return Project(ANDROID, f"{values['banner']}\n", names, values)


def _place(path: str) -> str:
    """Where a source lies in a package: its module has one source set, for one model."""
    return re.sub(r"^(\w+/src)/\w+/kotlin/", r"\1/main/kotlin/", path)


def _paths(facts: AppFacts, project: Project) -> list[str]:
    """The project's files that a bundle needs."""
    own = [f"model/src/{name}" for name in runtime_of(facts).source_sets(facts)]
    pack = ["model_pack/build.gradle.kts"] if facts.in_asset_pack else []
    json = ["model_json"] if kotlin_schemas(facts) else []
    checked = ["buildSrc/src/main/java/dev/edgec/PageSizeCheck.java"] if facts.texts is not None else []
    return [*_SCRIPTS, *pack, *checked, *project.sources([*own, *json, *_apps(facts)]), *_settings(facts)]


def _apps(facts: AppFacts) -> list[str]:
    """The folders of the apps' sources next to the model."""
    return [*(["bench/src"] if facts.texts is not None else []), *kotlin_sources(facts)]


def _settings(facts: AppFacts) -> list[str]:
    """The build scripts and manifests of the modules next to the model."""
    modules = {folder.partition("/")[0]: None for folder in _apps(facts)}
    scripts = [f"{module}/{name}" for module in modules for name in ("build.gradle.kts", _MANIFEST)]
    json = ["model_json/build.gradle.kts"] if kotlin_schemas(facts) else []
    return [*scripts, *json, *(["buildSrc/build.gradle.kts"] if facts.texts is not None else [])]
