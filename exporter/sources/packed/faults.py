"""The errors for safetensors checkpoints whose quantisation edgec does not read, or that contradict themselves."""

from __future__ import annotations

from pathlib import Path

from edgec.errors import InputError

READ = "GPTQ, AWQ (GEMM), compressed-tensors, fine-grained FP8, MXFP4, bitnet and torchao"
_ORIGINAL = "Pass the unquantised checkpoint (usually the repository without -GPTQ, -AWQ, -FP8 or -bnb in its name)"

_DAMAGED = "Download or copy the file again; if it is as published, it was damaged when it was quantised."


def unread_method(where: Path, method: str, why: str = "") -> InputError:
    """The error for a method, or a variant of one, that edgec does not read."""
    return InputError(
        what=f"Checkpoints quantised by {method} are not read.",
        where=str(where),
        why=why or f"edgec reads {READ}",
        fix=f"{_ORIGINAL}, or one in a form that docs/checkpoints.md lists.",
        code="E814",
    )


def bad_settings(where: Path, why: str) -> InputError:
    """The error for settings that are incomplete or contradict each other."""
    return InputError(
        what="The quantisation settings of the checkpoint are incomplete or contradict each other.",
        where=str(where),
        why=" ".join(why.split()),
        fix="Copy config.json and quantize_config.json of one revision again, or correct the value.",
        code="E815",
    )


def bad_tensors(name: str, why: str) -> InputError:
    """The error for tensors of a quantised matrix that are missing, or of another shape or dtype than they must be."""
    return InputError(
        what="The tensors of a quantised matrix do not fit together.",
        where=name,
        why=why,
        fix="Use config.json and weights of the same revision; download or copy the weights again.",
        code="E816",
    )


def bad_indices(name: str, why: str) -> InputError:
    """The error for act-order indices that name no group."""
    return InputError(
        what="The act-order indices of a quantised matrix are impossible.",
        where=name,
        why=why,
        fix=_DAMAGED,
        code="E817",
    )


def bad_scales(name: str, why: str) -> InputError:
    """The error for scales that are zero, infinite or not numbers."""
    return InputError(
        what="The scales of a quantised matrix are damaged.",
        where=name,
        why=why,
        fix=_DAMAGED,
        code="E818",
    )


def bad_codes(name: str, why: str) -> InputError:
    """The error for codes or zero points that the format does not have."""
    return InputError(
        what="A quantised matrix holds codes that its format does not have.",
        where=name,
        why=why,
        fix=_DAMAGED,
        code="E819",
    )
