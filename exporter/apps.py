"""``edgec.embed``: an app's source package, in which edgec's engine holds calls of tools as Python does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgec.apps.embed import embed as packages
from edgec.apps.embed.embed import Embedded
from edgec.bundle.tools import Given
from edgec.exporter.schemas.constrained_calls import hold_calls
from edgec.quiet import quiet


@quiet()
def embed(
    bundle: str | Path,
    platform: str,
    out: str | Path | None = None,
    *,
    target_sdk: int | None = None,
    public_key: str | Path | None = None,
    tools: str | Path | Sequence[Given] | None = None,
    runtime: str | None = None,
) -> Embedded:
    """Write the source package of a bundle.

    Args:
        bundle: the bundle's folder, or its address on the hub; every file of it is checked.
        platform: ``ios`` (a Swift package) or ``android`` (Gradle modules).
        out: the path of the package itself; by default NAME-PLATFORM in the current folder.
        target_sdk: for Android; by default the oldest that Google Play accepts.
        public_key: a PEM file of the key that signed the bundle; the app then loads other bundles signed by it, too.
        tools: what a language model may call in the app: a JSON file, or as for `Chat.send`. Where
            edgec's engine executes the bundle, calls are held to their schemas.
        runtime: what the app is to execute the bundle with; None: what it was made for.

    Returns:
        The package's path and what it needs.

    Raises:
        InputError: see `edgec.apps.embed.embed`; E613 to E615, E620, a tool's schema cannot be enforced in the
            model's notation of calls; E762, not by an app's engine; E763, the notation's markers end texts; E617, the
            tokenizer has no bytes; E625, it does not write the markers of reasoning.
        ToolError: E600, the library that checks signatures is not installed; E619, llguidance is not, which calls need.
    """
    return packages.embed(
        bundle,
        platform,
        out,
        target_sdk=target_sdk,
        public_key=public_key,
        tools=tools,
        hold=hold_calls,
        runtime=runtime,
    )
