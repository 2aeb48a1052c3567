"""The placeholders of the Gradle templates, filled from a bundle's facts and the project's versions."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.apps.embed.android_runtimes import dependencies, runtime_of
from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_project import engine_library, native_classes
from edgec.apps.embed.kotlin_text import boolean, package_name
from edgec.apps.embed.page_sizes import android_project
from edgec.apps.embed.project import ANDROID
from edgec.apps.embed.sample_pieces import kotlin_sources
from edgec.apps.embed.schema_constants import kotlin_schemas
from edgec.apps.embed.template_text import fill, load

# Hexagon is reached through a library of the phone's maker, and its own libraries are loaded as files.
_LIBRARY = """
    <application>
        <uses-native-library android:name="libcdsprpc.so" android:required="false" />
    </application>"""
_ARCHIVE = """
    // What `edgec runner build --aar` wrote, instead of compiling the engine with the app.
    findProperty("engineArchive")?.let { implementation(files(it)) }"""
_UNPACKED = "\n\n    packaging { jniLibs { useLegacyPackaging = true } }"


def gradle_values(facts: AppFacts, target_sdk: int) -> Mapping[str, str]:
    """The text for every placeholder of the Gradle templates."""
    version = facts.manifest.runtime.version
    plain = "".join(
        character for character in version if character.isascii() and (character.isalnum() or character in ".-+")
    )
    runtime, pack = runtime_of(facts), facts.in_asset_pack
    plug_in = android_project()["versions"]["android_plugin"]
    kept = [f"{each}.**" for each in runtime.kept]
    if runtime.compiled:
        kept += [f"{package_name(facts.manifest.name)}.{each}" for each in native_classes(facts)]
    lines = [f'    implementation("{each}")' for each in dependencies(runtime, facts.manifest)]
    return _versions(target_sdk, runtime.minimum_sdk) | {
        "runtime_version_text": plain,
        "runtime_dependencies": "\n".join(lines),
        "uncompressed": ", ".join(f'"{ending}"' for ending in (*runtime.uncompressed, "safetensors")),
        "engine_library": engine_library(facts),
        "engine_build": _native_build(facts) if runtime.compiled else "",
        "engine_arguments": _native_arguments(facts) if runtime.compiled else "",
        "engine_archive": _ARCHIVE if runtime.compiled else "",
        "built_as": "edgec's engine" if runtime.compiled else "Android archive",
        "accelerated": boolean(runtime.accelerated),
        "native_library": _LIBRARY if runtime.accelerated else "",
        "unpacked_libraries": _UNPACKED if runtime.accelerated else "",
        "app_includes": "".join(f', ":{app}"' for app in _apps(facts)),
        "json_include": ', ":model_json"' if kotlin_schemas(facts) else "",
        "pack_include": ', ":model_pack"' if pack else "",
        "pack_plugin": f'\n        id("com.android.ai-pack") version "{plug_in}"' if pack else "",
        "pack_applied": '\n    id("com.android.ai-pack") apply false' if pack else "",
        "keep_rules": "\n".join(
            [f"-keep class {each} {{ *; }}" for each in kept] + [f"-dontwarn {each}.**" for each in runtime.absent]
        ),
        "asset_packs": '\n\n    assetPacks += listOf(":model_pack")' if pack else "",
    }


def _apps(facts: AppFacts) -> list[str]:
    """The modules that are apps."""
    return [*(["bench"] if facts.texts is not None else []), *(["sample"] if kotlin_sources(facts) else [])]


def _native_build(facts: AppFacts) -> str:
    versions = android_project()["versions"]
    path = f'path = file("src/main/cpp/CMakeLists.txt"); version = "{versions["cmake"]}"'
    lines = (f'ndkVersion = "{versions["ndk"]}"', f"externalNativeBuild {{ cmake {{ {path} }} }}")
    # With -PengineArchive=FILE the app has the engine from there.
    return (
        '\n    if (findProperty("engineArchive") == null) {\n'
        + "".join(f"        {line}\n" for line in lines)
        + "    }\n"
    )


def _native_arguments(facts: AppFacts) -> str:
    return fill(load(ANDROID / "model", "arguments.gradle.kts"), {"engine_library": engine_library(facts)})


def _versions(target_sdk: int, minimum_sdk: int) -> dict[str, str]:
    versions = android_project()["versions"]
    return {
        "gradle_version": versions["gradle"],
        "gradle_digest": versions["gradle_sha256"],
        "android_plugin": versions["android_plugin"],
        "kotlin_plugin": versions["kotlin"],
        "coroutines": versions["coroutines"],
        "serialization": versions["serialization"],
        "compose": versions["compose"],
        "activity": versions["activity"],
        "compile_sdk": str(versions["compile_sdk"]),
        "minimum_sdk": str(max(minimum_sdk, versions["minimum_sdk"])),
        "target_sdk": str(target_sdk),
    }
