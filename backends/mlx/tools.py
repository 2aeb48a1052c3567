"""``mlx``, which executes MLX programs here: imported where it is needed, its absence told."""

from __future__ import annotations

from functools import cache
from typing import Any

from edgec.errors import ToolError
from edgec.installation import install_command


@cache
def mlx_core() -> Any:
    """The module ``mlx.core``.

    Raises:
        ToolError: E871, it is not installed.
    """
    try:
        import mlx.core
    except ImportError as cause:
        raise ToolError(
            "MLX is not installed, and nothing else executes this artifact here.",
            where="mlx",
            why=str(cause),
            fix=install_command("mlx"),
            code="E871",
        ) from cause
    return mlx.core
