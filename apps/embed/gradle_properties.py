"""``gradle.properties``: the versions that the project states, and the values of a model that its scripts read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from edgec.apps.embed.android_runtimes import AndroidRuntime, dependencies
from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_project import engine_library
from edgec.apps.embed.project import ANDROID

PROPERTIES = "gradle.properties"
_WRAPPER = "gradle/wrapper/gradle-wrapper.properties"


@cache
def _stated(path: str) -> Mapping[str, str]:
    lines = (ANDROID / path).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def version(name: str) -> str:
    """A version or API level that the project states, by the end of its property's name, such as ``Ndk``."""
    return _stated(PROPERTIES)[f"edgec{name}"]


def gradle_version() -> str:
    """The version of Gradle that the project fetches."""
    (version,) = re.findall(r"gradle-([\d.]+)-bin", _stated(_WRAPPER)["distributionUrl"])
    return str(version)


def minimum_sdk(runtime: AndroidRuntime) -> int:
    """The oldest API level that runs an artifact."""
    return max(runtime.minimum_sdk, int(version("MinSdk")))


def gradle_properties(
    facts: AppFacts, runtime: AndroidRuntime, target_sdk: int, modules: Sequence[str], sample: Sequence[str]
) -> bytes:
    """The project's file with a model's values.

    Args:
        facts: about the bundle.
        runtime: that executes it.
        target_sdk: of the apps.
        modules: that the package holds.
        sample: the source sets of the sample.
    """
    values = {
        "MinSdk": str(minimum_sdk(runtime)),
        "TargetSdk": str(target_sdk),
        "Modules": ",".join(modules),
        "ModelSets": ",".join(runtime.source_sets(facts)),
        "SampleSets": ",".join(sample),
        "Runtime": ",".join(dependencies(runtime, facts.manifest)),
        "Library": engine_library(facts) if runtime.compiled else "",
        "Uncompressed": ",".join((*runtime.uncompressed, "safetensors")),
        "Unpacked": str(runtime.accelerated).lower(),
        **({"Kotlin": runtime.kotlin} if runtime.kotlin else {}),
        "Pack": str(facts.in_asset_pack).lower(),
    }
    text = (ANDROID / PROPERTIES).read_text(encoding="utf-8")
    return re.sub(
        r"^edgec(\w+)=(.*)$", lambda line: f"edgec{line[1]}={values.get(line[1], line[2])}", text, flags=re.M
    ).encode()
