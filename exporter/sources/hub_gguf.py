"""A GGUF model of a repository on the Hugging Face hub, which usually holds one model in many types.

owner/name:Q4_K_M         the file whose name has this in it
owner/name:file.gguf      the file itself
owner/name                the one model of a repository that holds nothing else
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path

from edgec.errors import InputError
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.gguf.file import first_parts
from edgec.exporter.sources.hub import fetch_files, listed_files

_FORM = re.compile(r"(?P<repo>[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*):(?P<choice>\w[\w.\-]*)")
# Image encoders of vision-language models and tables of importance lie beside language models.
_BESIDE = ("*mmproj*", "*imatrix*")
_SHOWN = 8


def hub_choice(model: str) -> tuple[str, str] | None:
    """The repository and the choice in ``owner/name:choice``; None for any other form."""
    form = _FORM.fullmatch(model)
    return (form["repo"], form["choice"]) if form else None


def fetch_gguf(repo: str, choice: str, revision: str | None = None) -> Path:
    """Download one GGUF model, all of its parts (or find it in the local cache), and return its first file.

    Args:
        repo: ``owner/name``.
        choice: a file's name or a part of it, in any case, such as ``q4_k_m``.
        revision: branch, tag or commit.

    Raises:
        InputError: E101 to E103 and E148, as ``fetch_snapshot``; E829, no file or several have that name.
    """
    patterns = [f"*{form}*" for form in dict.fromkeys((choice, choice.upper(), choice.lower()))]
    folder = fetch_files(repo, revision, patterns, _BESIDE)
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*.gguf") if is_plain(path)]
    found = chosen(files, choice)
    if len(found) == 1:
        return folder / found[0]
    raise _no_choice(repo, choice, found or first_parts(listed_files(repo, revision)))


def refuse_unchosen(repo: str, folder: Path, revision: str | None) -> None:
    """Refuse a repository without a config.json whose weights are GGUF files that were not asked for.

    Raises:
        InputError: E829, with what can be asked for; E101 to E103, the hub.
    """
    if any(folder.glob("*.json")) or any(folder.rglob("*.gguf")):
        return
    if held := chosen(listed_files(repo, revision), ".gguf"):
        raise _no_choice(repo, None, held)


def chosen(files: Sequence[str], choice: str) -> list[str]:
    """The models (first parts) whose names have the choice in them; where it ends some names, those alone."""
    wanted = choice.lower().removesuffix(".gguf")
    beside = (any(fnmatch.fnmatch(file.lower(), each) for each in _BESIDE) for file in files)
    models = first_parts([file for file, other in zip(files, beside, strict=True) if not other])
    found = [file for file in models if wanted in file.lower()]
    # Q4_K stands in Q4_K_M and Q4_K_S, too; "-Q8_0.gguf" and "-Q8_0-00001-of-00002.gguf" end with Q8_0.
    ending = [file for file in found if re.search(rf"(^|[\W_]){re.escape(wanted)}(-\d+-of-\d+)?\.gguf$", file.lower())]
    return ending or found


def _no_choice(repo: str, choice: str | None, held: Sequence[str]) -> InputError:
    names = ", ".join(held[:_SHOWN]) + (f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else "")
    one = f"one GGUF model whose name has {choice!r} in it" if choice else "a config.json"
    return InputError(
        what=f"The repository {repo} has not {one}.",
        where=f"https://huggingface.co/{repo}",
        why=f"it holds {names}" if held else "it holds no GGUF model",
        fix=f"Name one of them: {repo}:{held[0].rpartition('/')[2]}" if held else "Check the repository's name.",
        code="E829",
    )
