"""``--runtime``: what an app is to execute a bundle with, which the bundle's format decides."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.bundle.folder import Bundle
from edgec.errors import InputError

_RUNTIMES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "executorch": (("pte",), "--target android-cpu, or --target iphone --format pte"),
    "onnxruntime": (("onnx", "qnn"), "--target android-cpu --format onnx, or --target for a Snapdragon"),
    "litert": (("litertlm", "tflite"), "--target android-litert, or --target android-litert-gpu"),
    "coreml": (("mlpackage",), "--target iphone --format mlpackage"),
    "coreai": (("aimodel",), "--target iphone --format aimodel"),
}
"""Each with the formats that it opens, and what exports them. edgec's engine executes a ``.pte`` over ExecuTorch."""


def check_runtime(bundle: Bundle, runtime: str | None) -> None:
    """Refuse a bundle that the app's runtime does not open.

    Raises:
        InputError: E960, it opens other formats, or is unknown.
    """
    form = str(bundle.manifest.format)
    if runtime is None or form in _RUNTIMES.get(runtime, ((), ""))[0]:
        return
    if runtime not in _RUNTIMES:
        raise _refused(f"{runtime!r} is no runtime that apps have", f"use one of {', '.join(_RUNTIMES)}")
    formats, exported = _RUNTIMES[runtime]
    why = f"it opens {' and '.join(f'.{each}' for each in formats)}, and {bundle.manifest.name} is a .{form}"
    raise _refused(why, f"export the model for it: edgec export MODEL {exported}")


def _refused(why: str, fix: str) -> InputError:
    return InputError("The app's runtime does not open this bundle.", "--runtime", why, fix, "E960")
