"""The Gradle modules for an Android bundle: ``model`` (wrapper and bundle), ``bench``, and an AI pack where needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgec.apps.embed.android_readme import android_readme
from edgec.apps.embed.android_runtimes import dependencies, reads_texts, runtime_of
from edgec.apps.embed.app_facts import AppFacts, app_facts
from edgec.apps.embed.chat_prompt import ChatPrompt, chat_prompt
from edgec.apps.embed.constrained_calls import HoldCalls
from edgec.apps.embed.engine_project import engine_pages, engine_project
from edgec.apps.embed.facts_json import FACTS
from edgec.apps.embed.gradle_properties import PROPERTIES, gradle_properties, minimum_sdk, version
from edgec.apps.embed.kotlin_facts import BUNDLE_FOLDER, kotlin_calls_folder, kotlin_facts, renders_chat
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.page_sizes import ASKED_FROM_SDK, check_page_sizes, library_pages
from edgec.apps.embed.project import ANDROID, MODULE, PACKAGE, Project
from edgec.apps.embed.schema_constants import kotlin_schemas
from edgec.apps.embed.template_text import module_name
from edgec.apps.embed.tokenizer_plan import tokenizer_values
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
_BANNER = f"// Made by edgec {__version__} from a bundle; run `edgec embed` again instead of editing.\n"
_PATH = PACKAGE.replace(".", "/")
_SCRIPTS = (
    *("settings.gradle.kts", "gradlew", "gradle/wrapper/gradle-wrapper.properties"),
    "model/consumer-rules.pro",
)
# Written for the artifact: the engine's project, and the values.
_NATIVE, _RESOURCES = "model/src/main/cpp/", "model/src/main/resources/"
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
            that do not fit, E961 tools for LiteRT-LM, E780 images that it cannot prepare, and what ``hold`` raises.
    """
    _check_target(target_sdk)
    if tools and reads_texts(str(bundle.manifest.format)):
        raise _with_own_tools(bundle.manifest.name)
    facts = app_facts(bundle, "android", key, tools, hold)
    _check(facts)
    runtime = runtime_of(facts)
    libraries = library_pages(dependencies(runtime, facts.manifest))
    check_page_sizes(libraries, bundle, target_sdk)
    compiled = [engine_pages(facts)] if runtime.compiled else []
    assert bundle.tokenizer_dir is not None  # app_facts refuses decoders and encoders without one
    rendered = facts.texts is not None and not runtime.reads_texts
    prompt = chat_prompt(bundle.tokenizer_dir, in_parts=facts.vision is not None) if rendered else ChatPrompt()
    project, modules = _project(facts), _modules(facts)
    tokenizer = {} if runtime.reads_texts else tokenizer_values(bundle.tokenizer_dir / "tokenizer.json")
    values = kotlin_facts(facts, runtime, prompt, tokenizer)
    contents: Files = {
        **{project.named(path): project.copied(path) for path in _paths(facts, modules, project)},
        "build.gradle.kts": _root_script(facts),
        PROPERTIES: gradle_properties(facts, runtime, target_sdk, modules, sample_sets(facts)),
        project.named(f"model/src/main/resources/{_PATH}/{FACTS}"): values,
        **_schemas(facts, project),
        **(engine_project(facts) if runtime.compiled else {}),
        "README.md": android_readme(facts, renders_chat(facts, prompt), [*libraries, *compiled], target_sdk).encode(),
        **(_JOB_FILE if "bench" in modules else {}),
        **_assets(facts, bundle),
        **_held(facts),
    }
    return AppPackage(
        platform="android",
        module=package_name(facts.manifest.name),
        files=contents,
        format=str(facts.manifest.format),
        minimum_os=_SYSTEMS[minimum_sdk(runtime)],
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
    oldest, newest = int(version("MinSdk")), int(version("CompileSdk"))
    if not oldest <= target_sdk <= newest:
        why = f"the project is compiled for {newest} and runs from {oldest} on"
        fix = f"use a number from {oldest} to {newest}; Google Play requires {ASKED_FROM_SDK}"
        raise InputError(f"the target SDK {target_sdk} is out of range", "--target-sdk", why, fix, "E472")


def _check(facts: AppFacts) -> None:
    if not facts.has_tokenizer:
        why = "the Kotlin wrapper is for language models, sentence encoders and models that transcribe speech"
        fix = "call the runtime's own classes yourself"
        raise InputError("no app glue fits this bundle", facts.manifest.name, why, fix, "E464")


def _with_own_tools(name: str) -> InputError:
    return InputError(
        "LiteRT-LM has tools of its own.",
        where="--tools",
        why=f"{name} runs in LiteRT-LM, which takes tools as Kotlin classes, and reads calls itself",
        fix="leave --tools out, and give its ConversationConfig the tools; or export with --target android-cpu",
        code="E961",
    )


def _project(facts: AppFacts) -> Project:
    package = package_name(facts.manifest.name)
    return Project(ANDROID, _BANNER, {PACKAGE: package, _PATH: package.replace(".", "/"), MODULE: module_name(facts)})


def _modules(facts: AppFacts) -> list[str]:
    """The modules of a package."""
    held = {
        "model": True,
        "bench": facts.texts is not None and not runtime_of(facts).reads_texts,
        "sample": bool(sample_sets(facts)),
        "model_json": bool(kotlin_schemas(facts)),
        "model_pack": facts.in_asset_pack,
    }
    return [name for name, is_held in held.items() if is_held]


def sample_sets(facts: AppFacts) -> tuple[str, ...]:
    """The source sets of the sample; none where there is no sample."""
    if facts.audio is not None:
        return ("transcribe",)
    if facts.texts is None or runtime_of(facts).reads_texts:
        return ()
    return ("chat", "text" if facts.vision is None else "vision")


def _paths(facts: AppFacts, modules: Sequence[str], project: Project) -> list[str]:
    """The project's files that a bundle needs, but for those that are written anew."""
    sets = {"model": runtime_of(facts).source_sets(facts), "sample": sample_sets(facts)}
    folders = [f"{module}/src/{name}" for module in modules for name in sets.get(module, ("main",))]
    checked = ["buildSrc"] if "bench" in modules else []
    found = project.files([*folders, *checked])
    scripts = [f"{module}/build.gradle.kts" for module in modules]
    return [*_SCRIPTS, *scripts, *(path for path in found if not path.startswith((_NATIVE, _RESOURCES)))]


def _root_script(facts: AppFacts) -> bytes:
    """The project's own script; the plug-in of an AI pack is fetched only where there is one."""
    text = (ANDROID / "build.gradle.kts").read_text(encoding="utf-8")
    packed = text.replace("\n}\n", '\n    id("com.android.ai-pack") apply false\n}\n')
    return (packed if facts.in_asset_pack else text).encode()


def _schemas(facts: AppFacts, project: Project) -> Files:
    """The names of the bundle's schemas, as constants for the app's code."""
    constants = kotlin_schemas(facts)
    path = project.named(f"model/src/main/kotlin/{_PATH}/SchemaNames.kt")
    text = f"{_BANNER}package {PACKAGE}\n\n/** The schemas of the bundle. */\nobject Schemas {{{constants}\n}}\n"
    return {path: project.named(text).encode()} if constants else {}
