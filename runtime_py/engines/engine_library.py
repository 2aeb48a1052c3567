"""edgec's engine as a library: compiled for this machine at its first use, with the interface of ``engine.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from edgec.engine.compile.build import build_runner
from edgec.errors import ToolError

ABI_VERSION: Final = 2
MAX_RANK: Final = 8
_ERROR_BYTES: Final = 2048
_Result = TypeVar("_Result")


class RawTensor(Structure):
    """``EdgecTensor`` of engine.h."""

    _fields_: ClassVar = [("data", c_void_p), ("dtype", c_int32), ("rank", c_int32), ("sizes", c_int64 * MAX_RANK)]


class RawRun(Structure):
    """``EdgecRun`` of engine.h."""

    _fields_: ClassVar = [("session", c_void_p), ("token_count", c_int64), ("row_count", c_int64)]


class RawInfo(Structure):
    """``EdgecModelInfo`` of engine.h."""

    _fields_: ClassVar = [
        *((name, c_int64) for name in ("load_ns", "state_bytes", "scratch_bytes", "packed_bytes")),
        *((name, c_int64) for name in ("max_tokens", "max_rows")),
        *((name, c_int32) for name in ("packed", "sessions")),
    ]


_FUNCTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("edgec_abi_version", c_int, ()),
    ("edgec_threads", c_int, (c_int,)),
    ("edgec_has_operator", c_int, (c_char_p,)),
    ("edgec_packed_path", c_int, (c_char_p, c_char_p, c_char_p, c_size_t)),
    ("edgec_model_open", c_void_p, (c_char_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    ("edgec_model_close", None, (c_void_p,)),
    ("edgec_model_info", None, (c_void_p, POINTER(RawInfo))),
    ("edgec_session_open", c_void_p, (c_void_p, c_int, c_char_p, c_size_t)),
    ("edgec_session_close", None, (c_void_p,)),
    ("edgec_adapter_open", c_void_p, (c_void_p, c_void_p, c_size_t, c_char_p, c_size_t)),
    ("edgec_adapter_read", c_void_p, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    ("edgec_adapter_digest", c_char_p, (c_void_p,)),
    ("edgec_adapter_close", None, (c_void_p,)),
    ("edgec_session_adapter", c_int, (c_void_p, c_void_p, c_char_p, c_size_t)),
    ("edgec_session_run", c_int, (c_void_p, POINTER(RawTensor), c_size_t, c_char_p, c_size_t)),
    ("edgec_model_step", c_int, (c_void_p, POINTER(RawRun), c_size_t, *(c_void_p,) * 3, c_char_p, c_size_t)),
    ("edgec_session_output_count", c_size_t, (c_void_p,)),
    ("edgec_linear_kernel", c_char_p, ()),
    ("edgec_linear_kernels", c_char_p, ()),
    ("edgec_session_output", c_int, (c_void_p, c_size_t, POINTER(RawTensor))),
    ("edgec_session_state", c_void_p, (c_void_p, POINTER(c_size_t))),
    ("edgec_session_profile", c_char_p, (c_void_p,)),
    ("edgec_session_profile_reset", None, (c_void_p,)),
    ("edgec_structure_open", c_void_p, (c_char_p, c_char_p, c_char_p, c_size_t)),
    ("edgec_structure_close", None, (c_void_p,)),
    ("edgec_text_open", c_void_p, (c_void_p, c_int64, c_char_p, c_size_t)),
    ("edgec_text_close", None, (c_void_p,)),
    ("edgec_text_mask", c_int, (c_void_p, c_void_p, c_size_t, c_char_p, c_size_t)),
    ("edgec_text_take", c_int, (c_void_p, c_int64, c_char_p, c_size_t)),
)


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The engine's library, compiled for this machine at its first use (with a bar on stderr).

    Loading it registers edgec's operators with ExecuTorch, for this engine and for ExecuTorch's own Python binding.

    Raises:
        ToolError: E311 no compiler, E312 the compiler failed, E301 ExecuTorch is absent or cannot be loaded.
        InputError: E121 or E122, the cache cannot be written.
    """
    from edgec.terminal import counted_bar

    with counted_bar("compiling the engine for this CPU (once)") as show:
        path = build_runner(compiled=show).library
    try:
        loaded = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as cause:
        raise _unloadable(path, str(cause)) from cause
    for name, result, arguments in _FUNCTIONS:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, list(arguments)
    if loaded.edgec_abi_version() != ABI_VERSION:
        raise _unloadable(path, f"its interface has version {loaded.edgec_abi_version()}, not {ABI_VERSION}")
    return loaded


def _unloadable(path: Path, why: str) -> ToolError:
    fix = "delete the folder and run 'edgec runner build', or check the installation with 'edgec doctor'"
    return ToolError("The engine cannot be loaded.", where=str(path), why=why, fix=fix, code="E301")


def told(call: Callable[..., _Result], *arguments: Any) -> tuple[_Result, str]:
    """What a function of the engine that may refuse gives, and what it says of a failure."""
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    return call(*arguments, error, len(error)), error.value.decode(errors="replace")
