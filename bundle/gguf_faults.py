"""The errors for GGUF files that are damaged, contradict themselves or hold what edgec does not read."""

from __future__ import annotations

from pathlib import Path

from edgec.errors import InputError

_WHAT = {
    "E802": "The GGUF file ends too early, or its counts are impossible.",
    "E803": "The metadata of the GGUF file is damaged.",
    "E804": "The alignment of the GGUF file is impossible.",
    "E805": "The table of tensors of the GGUF file is damaged.",
    "E807": "A tensor of the GGUF file lies outside it, in another tensor or at an odd place.",
}


def gguf_error(code: str, file: Path, what: str, why: str, fix: str) -> InputError:
    """An error about a file; the reason is kept on one line."""
    return InputError(what, str(file), " ".join(why.split()), fix, code)


def copy_again(code: str, file: Path, why: str) -> InputError:
    """The error for a file that is damaged, or was never right."""
    fix = "Download or copy the file again and compare its size and sha256 with the source."
    return gguf_error(code, file, _WHAT[code], why, fix)
