"""The instructions that edgec's linear kernels use: those that this processor has, and those in force."""

from __future__ import annotations

import os
from collections.abc import Sequence

from edgec.errors import InputError
from edgec.runtime_py.engines.engine_library import library

ASKED = "EDGEC_ISA"
"""The environment variable that asks for lesser instructions than the processor's best."""
_PLAIN = "plain"


def linear_kernel() -> str:
    """The instructions that matrices of few bits are multiplied with in this process, such as ``avx512vnni``."""
    return str(library().edgec_linear_kernel().decode())


def linear_kernels() -> tuple[str, ...]:
    """The instructions that this processor has and edgec's kernels use, best first; the last is ``plain``."""
    return tuple(library().edgec_linear_kernels().decode().split())


def require_known_isa() -> None:
    """Refuse a name in EDGEC_ISA that no kernel of this processor has: another kernel would run unnoticed.

    Raises:
        InputError: E144.
    """
    asked = os.environ.get(ASKED)
    if not asked or asked in linear_kernels():
        return
    raise InputError(
        "These instructions cannot be used here.",
        where=f"{ASKED}={asked}",
        why=f"edgec's kernels have {', '.join(linear_kernels())} on this processor",
        fix=f"unset {ASKED}, or set it to one of these",
        code="E144",
    )


def kernel_text(kernel: str, available: Sequence[str]) -> str:
    """The instructions in force, and why they are not better ones where they could be.

    Args:
        kernel: in force.
        available: those that the processor has, best first; empty where it did not say.
    """
    if available and kernel != available[0]:
        return f"{kernel} by {ASKED} (its best: {available[0]})"
    if kernel == _PLAIN:
        return f"{kernel} (the processor has no instructions for a faster kernel)"
    return kernel
