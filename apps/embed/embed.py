"""``edgec.embed``: write the source package with which an app embeds a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.apps.embed.asked_runtime import check_runtime
from edgec.apps.embed.constrained_calls import HoldCalls
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.page_sizes import ASKED_FROM_SDK
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.vision_facts import decoder_limits
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.bundle.signature import check_signature
from edgec.bundle.signing_keys import PublicKey, read_public_key
from edgec.bundle.tokenizer_folder import check_tokenizer
from edgec.bundle.tools import Given, Tool, tools_in, tools_of
from edgec.errors import InputError
from edgec.quiet import quiet

_PLATFORMS = ("ios", "android")


@dataclass(frozen=True)
class Embedded:
    """A source package that was written to disk."""

    path: Path
    package: AppPackage

    def to_json(self) -> dict[str, Any]:
        """The package's facts as plain data."""
        return {"package": str(self.path), **self.package.to_json()}


@quiet()
def embed(
    bundle: str | Path,
    platform: str,
    out: str | Path | None = None,
    *,
    target_sdk: int | None = None,
    public_key: str | Path | None = None,
    tools: str | Path | Sequence[Given] | None = None,
    hold: HoldCalls | None = None,
    runtime: str | None = None,
) -> Embedded:
    """Write the source package of a bundle.

    Args:
        bundle: the bundle's folder, or its address on the hub; every file of it is checked.
        platform: ``ios`` (a Swift package) or ``android`` (Gradle modules).
        out: the path of the package itself; by default NAME-PLATFORM in the current folder.
        target_sdk: for Android; by default the oldest that Google Play accepts.
        public_key: a PEM file of the key that signed the bundle; the app then loads other bundles signed by it, too.
        tools: what a language model may call in the app: a JSON file, or as for `Chat.send`.
        hold: compiles what calls are held to where edgec's engine executes the bundle; None: they are held to nothing.
        runtime: what the app is to execute it with, such as ``litert``; None: what the bundle was made for.

    Returns:
        The package's path and what it needs.

    Raises:
        InputError: E130-E137 not an intact bundle, E158 a tokenizer that takes too much, E460 another system's bundle,
            E461 the output exists, E462 no tokenizer, E463 unreadable files, E464 no glue fits, E465 no typed function,
            E466 unknown platform, E469 a number without a literal, E470 or E741 a tokenizer that the app does not
            support, E471 native libraries that Google Play refuses, E472 ``target_sdk``, E755 a text that the app's
            engine cannot write, E770 or E780 images that it cannot prepare, E859 another runtime's layout, E960 it is
            for another runtime than ``runtime``; with a key
            E601 no signature, E602 no readable one, E603 not by this key, E604 the bundle is not what was signed, E605
            no usable key; with tools E620, E621 or E629 they are not tools, E760 the model has no chat template with
            tools, E761 not one that an app can follow, E961 LiteRT-LM has its own, and what ``hold`` raises.
        ToolError: E600, the library that checks signatures is not installed.
    """
    if platform not in _PLATFORMS:
        fix = f"use one of {', '.join(_PLATFORMS)}"
        raise InputError(f"unknown platform {platform!r}", "--platform", fix=fix, code="E466")
    key = read_public_key(Path(public_key)) if public_key is not None else None
    folder = bundle_folder(bundle)
    if key is not None:
        check_signature(folder, key)
    opened = open_bundle(folder)
    check_runtime(opened, runtime)
    _refuse_other_layouts(opened)
    _refuse_several_methods(opened)
    if opened.tokenizer_dir is not None:
        check_tokenizer(opened.tokenizer_dir)
    path = Path(out) if out is not None else Path(f"{opened.path.name.removesuffix('.edgec')}-{platform}")
    package = _package(opened, platform, target_sdk, key, _tools(opened, tools), hold)
    write_package(package, path)
    return Embedded(path, package)


def _refuse_other_layouts(bundle: Bundle) -> None:
    layout = bundle.manifest.layout
    if layout != DEFAULT_LAYOUT:
        raise InputError(
            f"edgec's apps do not open the layout {layout!r}.",
            where=str(bundle.path),
            why=f"it is for {LAYOUTS[layout].reader}, which an app uses in the place of edgec's code",
            fix="copy the bundle's folder into the app, or export again without --layout",
            code="E859",
        )


def _refuse_several_methods(bundle: Bundle) -> None:
    if bundle.manifest.audio_language is not None:
        raise InputError(
            "Apps cannot hold a model with audio yet.",
            where=str(bundle.path),
            why="the generated code calls one method and takes no audio, and this bundle has audio_encoder and forward",
            fix="use it on this machine (edgec run, edgec.load), or export the text part: --task text-generation",
            code="E752",
        )
    source, names = bundle.manifest.encoder_decoder, [method.name for method in bundle.manifest.methods]
    if source is not None and source.sound_input is None:
        raise InputError(
            "Apps cannot hold an encoder-decoder that reads text yet.",
            where=str(bundle.path),
            why=f"the generated code calls the methods of a decoder alone, and this bundle has {', '.join(names)}",
            fix="use it on this machine: edgec run, or edgec.load(bundle)",
            code="E535",
        )


def _tools(bundle: Bundle, given: str | Path | Sequence[Given] | None) -> tuple[Tool, ...]:
    if given is not None and decoder_limits(bundle.manifest) is None:
        why, fix = "this bundle is not a language model", "leave them out"
        raise InputError("Only a language model calls tools.", "--tools", why, fix, "E760")
    return tools_of(tools_in(Path(given)) if isinstance(given, str | Path) else given)


def _package(
    bundle: Bundle,
    platform: str,
    target_sdk: int | None,
    key: PublicKey | None,
    tools: tuple[Tool, ...],
    hold: HoldCalls | None,
) -> AppPackage:
    if platform == "android":
        return gradle_modules(bundle, ASKED_FROM_SDK if target_sdk is None else target_sdk, key, tools, hold)
    if target_sdk is not None:
        why, fix = "iOS has no target SDK", "omit it"
        raise InputError("--target-sdk is for --platform android", "--target-sdk", why, fix, "E472")
    return swift_package(bundle, key, tools, hold)
