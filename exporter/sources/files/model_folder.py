"""Read a model folder: config, generation config, tokenizer files, licence. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, read_object
from edgec.exporter.sources.files.plain_files import head_text, is_plain, plain_files

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
# Characters of a model card or a licence that are looked at.
_MOST_MATTER, _MOST_LICENCE = 1 << 20, 2000
# Phrases that open well-known licences, the more specific ones first.
_LICENCES = (
    ("LLAMA 3.3 COMMUNITY", "llama3.3"),
    ("LLAMA 3.2 COMMUNITY", "llama3.2"),
    ("LLAMA 3.1 COMMUNITY", "llama3.1"),
    ("META LLAMA 3 COMMUNITY", "llama3"),
    ("LLAMA 2 COMMUNITY", "llama2"),
    ("GEMMA TERMS OF USE", "gemma"),
    ("APACHE LICENSE", "apache-2.0"),
    ("MIT LICENSE", "mit"),
    ("BSD 3-CLAUSE", "bsd-3-clause"),
    ("CREATIVE COMMONS ATTRIBUTION 4.0", "cc-by-4.0"),
    ("GNU GENERAL PUBLIC LICENSE", "gpl"),
)


@dataclass(frozen=True)
class ModelFolder:
    """What a folder says about its model, apart from the weights.

    Attributes:
        path: the folder.
        config: config.json as written.
        generation_config: generation_config.json as written, or empty.
        tokenizer_files: the tokenizer's files that are present, in a fixed order.
        licence: as the model card or a licence file names it, or None.
        files: every file read here, for the fingerprint.
        stored: opens the weights for a model, where they do not lie in the folder (GGUF).
        unpacked: gives quantised weights the names and values of floats, where they are quantised (safetensors).
    """

    path: Path
    config: dict[str, Any]
    generation_config: dict[str, Any]
    tokenizer_files: tuple[Path, ...]
    licence: str | None
    files: tuple[Path, ...]
    stored: Callable[[Any], Any] | None = None
    unpacked: Callable[[Any], Any] | None = None


def read_folder(path: Path, config_file: Path | None = None) -> ModelFolder:
    """Read a model folder's descriptions.

    Args:
        path: the folder.
        config_file: the config, if its name is not ``config.json``.

    Raises:
        InputError: E111, the config or the generation config is absent or not a JSON object; E125, a file is a pipe or
            a device.
    """
    config_file = config_file or path / CONFIG
    generation_file = path / GENERATION_CONFIG
    tokenizer = tokenizer_files(path)
    present = (config_file, *([generation_file] if is_plain(generation_file) else []), *tokenizer)
    return ModelFolder(
        path=path,
        config=read_json(config_file),
        generation_config=read_json(generation_file) if is_plain(generation_file) else {},
        tokenizer_files=tokenizer,
        licence=find_licence(path),
        files=present,
    )


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file; numbers may be infinite, as Python writes them.

    Raises:
        InputError: E111, it is absent, unreadable, not JSON within the limits or not an object.
    """
    kind = JsonKind(
        what=f"{file.name} cannot be read.",
        fix="Pass a folder in the layout of `save_pretrained`, with a valid config.json; copy the file again.",
        code="E111",
        infinite=True,
    )
    return read_object(file, kind)


def tokenizer_files(path: Path) -> tuple[Path, ...]:
    """The tokenizer's files that are present, chat templates included."""
    from edgec.bundle.tokenizer_folder import EXTRA_TEMPLATES, TOKENIZER_NAMES

    named = [path / name for name in TOKENIZER_NAMES if is_plain(path / name)]
    return (*named, *plain_files(path, EXTRA_TEMPLATES))


def find_licence(path: Path) -> str | None:
    """The licence's identifier from the README's front matter, else recognised from a LICENSE file's text."""
    readme = path / "README.md"
    stated = _front_matter(readme).get("license") if is_plain(readme) else None
    if isinstance(stated, list):
        stated = ", ".join(item for item in stated if isinstance(item, str))
    if stated == "other":
        stated = _front_matter(readme).get("license_name") or stated
    # Only text: a few lines of YAML can stand for gigabytes of nested lists.
    return stated if isinstance(stated, str) and stated else _licence_file(path)


def _front_matter(readme: Path) -> dict[str, Any]:
    import yaml

    text = head_text(readme, _MOST_MATTER)
    if not text.startswith("---"):
        return {}
    try:
        matter = yaml.safe_load(text[3:].split("\n---", 1)[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}  # A broken model card is not a reason to refuse the model.
    return matter if isinstance(matter, dict) else {}


def _licence_file(path: Path) -> str | None:
    files = plain_files(path, "LICENSE*", "LICENCE*", "COPYING*")
    if not files:
        return None
    text = " ".join(head_text(files[0], _MOST_LICENCE).upper().split())
    return next((name for phrase, name in _LICENCES if phrase in text), f"see {files[0].name}")
