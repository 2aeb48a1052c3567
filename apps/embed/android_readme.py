"""The README of the Gradle modules for Android."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.apps.embed.android_runtimes import AndroidRuntime, dependencies, runtime_of
from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.encoder_facts import EncoderFacts
from edgec.apps.embed.gradle_properties import gradle_version
from edgec.apps.embed.image_sections import kotlin_image_section
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.page_sizes import LibraryPages
from edgec.apps.embed.readme import plain
from edgec.apps.embed.readme_sections import (
    audio_readme_values,
    key_section,
    kotlin_reply_section,
    kotlin_schema_section,
)
from edgec.apps.embed.template_text import READMES, fill, load, module_name
from edgec.bundle.manifest import Manifest
from edgec.installation import __version__

_PACK = (
    "\n## Delivery\n\nThe bundle has {size:,.0f} MB, more than an app should hold, so it is a Play AI pack, installed "
    "with the app.\nIts files appear among the app's assets, so the code is the same. A pack holds at most 1.5 GB.\n"
)
_PICTURES = "A button chooses pictures for the next message. "


def android_readme(facts: AppFacts, has_chat: bool, libraries: Sequence[LibraryPages], target_sdk: int) -> str:
    """The text of the modules' README.md.

    Args:
        facts: about the bundle.
        has_chat: conversations can be rendered.
        libraries: the archives with what is known about their page sizes.
        target_sdk: of the app.
    """
    name, own = _own(facts, has_chat)
    return fill(load(READMES, name), {**_values(facts, libraries, target_sdk), **own})


def _own(facts: AppFacts, has_chat: bool) -> tuple[str, dict[str, str]]:
    """The template of the bundle's kind of model, and its values."""
    if facts.audio is not None:
        return "android_speech.md", audio_readme_values(facts.audio)
    if facts.encoder is not None:
        return "android_encoder.md", _encoder_values(facts.encoder)
    if runtime_of(facts).reads_texts:
        return "android_litert_lm.md", {"kotlin": runtime_of(facts).kotlin}
    return "android.md", _decoder_values(facts, has_chat)


def _values(facts: AppFacts, libraries: Sequence[LibraryPages], target_sdk: int) -> dict[str, str]:
    manifest, pack = facts.manifest, facts.in_asset_pack
    runtime = runtime_of(facts)
    return {
        "module": module_name(facts),
        "package": package_name(manifest.name),
        "title": plain(manifest.name),
        "recipe_text": plain(manifest.recipe_name),
        "edgec_version": __version__,
        "pack_copy": " and `model_pack/`" if pack else "",
        "pack_use": ', and `assetPacks += listOf(":model_pack")` in its `android` block' if pack else "",
        "digest_text": plain(manifest.digest),
        "needed_mb": f"{facts.needed_bytes / 1e6:,.1f}",
        "pack": _PACK.format(size=facts.shipped_bytes / 1e6) if pack else "",
        "format_text": plain(str(manifest.format)),
        "libraries": "\n".join(map(_row, libraries)),
        "gradle_version": gradle_version(),
        "target_sdk": str(target_sdk),
        "runtime_names": ", ".join(f"`{each}`" for each in _published(runtime, manifest)),
        "never_run": runtime.note,
        "images": kotlin_image_section(facts),
        "schemas": kotlin_schema_section(facts),
        "key": key_section(facts, "PinnedKey.kt", "`LoadOptions(bundle = ...)`"),
    }


def _decoder_values(facts: AppFacts, has_chat: bool) -> dict[str, str]:
    limits = facts.limits
    assert limits is not None  # gradle_modules refuses other models
    call = 'chat(listOf(ChatMessage(ChatMessage.Role.user, "Hello")))' if has_chat else 'generate("Once upon a time")'
    return {
        "example": f"model.{call}.collect {{ print(it) }}",
        "context": f"{limits.context:,}",
        "picture_sample": _PICTURES if facts.vision is not None else "",
        "replies": kotlin_reply_section(facts, has_chat),
        "chat": "" if has_chat else "The model has no chat template that an app can render: `chat()` throws.",
    }


def _encoder_values(encoder: EncoderFacts) -> dict[str, str]:
    return {
        "most_tokens": f"{encoder.most_tokens:,}",
        "vector_width": f"{encoder.width:,}",
        "padded": ", padding" if encoder.padded else "",
    }


def _published(runtime: AndroidRuntime, manifest: Manifest) -> list[str]:
    """What the app's build fetches."""
    fetched = [f"github.com/pytorch/executorch v{plain(manifest.runtime.version)}"] if runtime.compiled else []
    return [*fetched, *dependencies(runtime, manifest)]


def _row(library: LibraryPages) -> str:
    return f"| `{plain(library.archive)}` | {library.status} | {plain(library.source)} |"
