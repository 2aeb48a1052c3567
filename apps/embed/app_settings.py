"""Settings of the iOS app around the package: build settings, entitlements, the asset pack's manifest."""

from __future__ import annotations

import json
import plistlib
from functools import cache
from typing import Any

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.glue import Glue
from edgec.apps.embed.swift_facts import bundle_folder
from edgec.apps.embed.template_text import module_name
from edgec.devices.targets import phones

_MEMORY = "com.apple.developer.kernel.increased-memory-limit"
_GROUPS = "com.apple.security.application-groups"
_SHARE = 0.8


def needs_more_memory(facts: AppFacts) -> bool:
    """Whether the model takes more than 80 % of the memory that the system grants an app without the entitlement.

    Where the target's limit is unknown, the smallest limit known for any iPhone counts.
    """
    limit = facts.target.app_limit_bytes or _smallest_limit()
    return facts.needed_bytes > _SHARE * limit


@cache
def _smallest_limit() -> int:
    return min(int(table["app_limit_bytes"]) for table in phones().values() if "app_limit_bytes" in table)


def entitlements(facts: AppFacts) -> bytes | None:
    """The content of the entitlements file, or None where none is needed."""
    rights: dict[str, Any] = {}
    if needs_more_memory(facts):
        rights[_MEMORY] = True
    if facts.in_asset_pack:
        rights[_GROUPS] = [app_group(facts)]
    return plistlib.dumps(rights) if rights else None


def bench_entitlements(facts: AppFacts) -> bytes | None:
    """The entitlements of the bench app, which holds the bundle itself and so shares no group with a downloader."""
    return plistlib.dumps({_MEMORY: True}) if needs_more_memory(facts) else None


def app_group(facts: AppFacts) -> str:
    """The app group that an app shares with its downloader extension; the app's developer replaces it."""
    return f"group.org.example.{module_name(facts)}"


def xcconfig(facts: AppFacts, glue: Glue) -> str:
    """The build settings to include in the app's own."""
    module = module_name(facts)
    major, minor = glue.minimum_os
    lines = [
        f"// Build settings that {module} needs; include this file from the app's own .xcconfig.",
        f"IPHONEOS_DEPLOYMENT_TARGET = {major}.{minor}",
    ]
    if glue.products:
        lines += [
            "// ExecuTorch's backends and kernels register themselves at start; the linker must not drop them.",
            "OTHER_LDFLAGS = $(inherited) -all_load",
        ]
    if entitlements(facts) is not None:
        lines += [
            "// Or merge its keys into the app's own entitlements:",
            f"// CODE_SIGN_ENTITLEMENTS = Config/{module}.entitlements",
        ]
    return "\n".join(lines) + "\n"


def asset_pack_manifest(facts: AppFacts) -> bytes:
    """The manifest for ``xcrun ba-package``: one essential pack with the bundle's folder."""
    manifest = {
        "assetPackID": f"{module_name(facts)}-model",
        "downloadPolicy": {"essential": {"installationEventTypes": ["firstInstallation", "subsequentUpdate"]}},
        "fileSelectors": [{"directory": bundle_folder(facts)}],
        "platforms": ["iOS"],
    }
    return (json.dumps(manifest, indent=2) + "\n").encode()


def background_assets_plist(facts: AppFacts) -> bytes:
    """The keys that the app's Info.plist needs for an asset pack that Apple hosts."""
    keys = {"BAHasManagedAssetPacks": True, "BAUsesAppleHosting": True, "BAAppGroupID": app_group(facts)}
    return plistlib.dumps(keys)
