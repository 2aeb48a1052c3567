"""Why an artifact cannot hold the vision of a model, where its methods have fixed shapes."""

from __future__ import annotations

from edgec.backends.forms import Form


def unseen(form: Form) -> str:
    """Why a form of artifact has no place for an image encoder; empty where it has."""
    if not form.static or form.encoders:
        return ""
    return (
        f"{form.artifact} for this target has methods of fixed shapes, and none for an image encoder; artifacts of "
        "Core ML, Core AI and ONNX have one (--target iphone, or --target host --format onnx)"
    )
