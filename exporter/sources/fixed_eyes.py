"""Which models with eyes can have methods of fixed shapes, and why the others cannot."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.exporter.sources.vision_families import FAMILIES


def unseen(family: str, form: Form) -> str:
    """Why a form of artifact cannot hold the eyes of a family of models; empty where it can.

    Args:
        family: key of ``FAMILIES``.
        form: of the target's artifact.
    """
    if not form.static:
        return ""
    if not form.sees:
        return (
            f"{form.artifact} for this target has methods of fixed shapes, and none for an image encoder; a Core ML "
            "package has one (--target iphone --format mlpackage)"
        )
    asked = FAMILIES[family]
    if asked.ahead != "none":
        return (
            f"tokens of {family}'s prompts see others after themselves, so that all of a prompt comes in one call, and "
            f"a call of fixed shapes takes {form.chunk} tokens"
        )
    if asked.mrope:
        return f"the positions of {family} have three parts, which edgec's methods of fixed shapes do not take yet"
    return ""
