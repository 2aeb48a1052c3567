"""Open a tokenizer's folder as data: whatever its files say, none of their code is run and nothing asks on stdin.

transformers finds a class by name, and not every class of that name is a tokenizer: ``AutoProcessor`` would read the
folder's ``auto_map`` again without being told that no code may run. So the name is checked before the folder is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgec.bundle.chat_template import RENDERER
from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.limited_tokenizer import LimitedTokenizer, try_file, try_folder
from edgec.bundle.panics import panics_as_errors
from edgec.bundle.plain_tokenizer import FILE, PlainTokenizer, plain_tokenizer
from edgec.bundle.tokenizer_checks import Opening, check_files, runs_quickly
from edgec.errors import InputError

TOKENIZER_NAMES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
)
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
IMAGE_FILES = (PREPROCESSOR, PROCESSOR)
EXTRA_TEMPLATES = "additional_chat_templates/*.jinja"
_CONFIG = "tokenizer_config.json"
_MAX_CONFIG_BYTES, _MAX_FILE_BYTES = 32 << 20, 512 << 20
_MAX_WHY = 300


class _NamedTemplate(BaseModel):
    name: str
    template: str


class _TokenizerConfig(BaseModel):
    """The fields of tokenizer_config.json that decide which code runs; all others are up to the tokenizer."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())

    tokenizer_class: str | None = None
    chat_template: str | dict[str, str] | list[_NamedTemplate] | None = None
    init_inputs: list[Any] = Field(default=[], max_length=0)
    gguf_file: None = None
    tokenizer_object: None = None


def open_tokenizer(folder: Path, *, plain: bool = False) -> Any:
    """The tokenizer of a bundle, of transformers.

    Args:
        folder: the bundle's.
        plain: take the tokenizers library alone, where there is a tokenizer.json; it reads and writes the same texts.

    Raises:
        InputError: E158, a file is not part of a tokenizer, or the tokenizer cannot be read without running code.
    """
    with _unusable(folder):
        _check_names(folder)
        return _plain(folder) if plain and (folder / FILE).is_file() else untrusted_tokenizer(folder)


def _plain(folder: Path) -> PlainTokenizer:
    config = _config(folder)
    if _has_template(folder, config):
        RENDERER.start()
    _try_elsewhere(folder, config)
    named = config.model_dump(exclude_none=True)
    with panics_as_errors():
        return plain_tokenizer(folder, named)


def check_tokenizer(folder: Path) -> None:
    """Refuse a bundle's tokenizer that harms whoever opens it, or makes too much of a text; apps have no such limits.

    Raises:
        InputError: E158.
    """
    with _unusable(folder):
        _check_names(folder)
        _try_elsewhere(folder, _config(folder))


def has_template(folder: Path) -> bool:
    """Whether a bundle's tokenizer has a chat template.

    Raises:
        InputError: E158, its config cannot be read.
    """
    with _unusable(folder):
        return _has_template(folder, _config(folder))


@contextmanager
def _unusable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as cause:
        raise unusable_tokenizer(folder, str(cause)) from cause


def unusable_tokenizer(where: Path, why: str) -> InputError:
    """The error E158 for a bundle's tokenizer that cannot be used."""
    return InputError(
        "The bundle has no usable tokenizer.",
        where=str(where),
        why=why,
        fix="pass token ids to generate(), or export from a folder that holds the tokenizer",
        code="E158",
    )


def untrusted_tokenizer(folder: Path) -> Any:
    """The transformers tokenizer of a folder, read without the network and without running the folder's code.

    What is known to be harmless is opened at once, anything else first in a process that may die of it. A tokenizer
    whose parts are not known to be quick has its texts read in such a process, too.

    Raises:
        OSError: a file cannot be read.
        ValueError: the files are damaged, too large, or ask for code or for more than the limits.
        ToolError: E300, no process can be started for it.
    """
    config = _config(folder)
    _check_class(config.tokenizer_class)
    if _has_template(folder, config):
        RENDERER.start()
    _try_elsewhere(folder, config)
    tokenizer = read_tokenizer(folder)
    backend = getattr(tokenizer, "_tokenizer", None)
    if backend is not None and not runs_quickly(backend):
        tokenizer._tokenizer = LimitedTokenizer(backend)
    return tokenizer


def _try_elsewhere(folder: Path, config: _TokenizerConfig) -> None:
    """Check the files; what they say in ways that are not known to be harmless is opened in a process of its own."""
    opening = check_files(folder, config.model_extra or {})
    if opening is not Opening.KNOWN:
        with _plain_path(folder) as plain:
            try_folder(plain) if opening is Opening.FOLDER else try_file(plain / "tokenizer.json")


def read_tokenizer(folder: Path) -> Any:
    """The transformers tokenizer of a folder, whatever it takes to open it.

    Raises:
        ValueError: it cannot be opened.
    """
    from transformers import AutoTokenizer

    try:
        with _plain_path(folder) as plain, panics_as_errors():
            return AutoTokenizer.from_pretrained(plain, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers and transformers raise bare Exceptions on damaged files.
        raise ValueError(" ".join(str(error).split())[:_MAX_WHY] or type(error).__name__) from error


@contextmanager
def _plain_path(folder: Path) -> Iterator[Path]:
    """The folder under a path of valid Unicode, the only kind that the tokenizers library opens."""
    if os.fsencode(folder).decode(errors="replace") == str(folder):
        yield folder
        return
    with TemporaryDirectory() as aside:
        link = Path(aside) / "tokenizer"
        link.symlink_to(folder.absolute())
        yield link


def _has_template(folder: Path, config: _TokenizerConfig) -> bool:
    return bool(config.chat_template) or any(folder.rglob("*.jinja"))


def _check_names(folder: Path) -> None:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in TOKENIZER_NAMES and not fnmatch(name, "*.jinja"):
            raise ValueError(f"{name!r} is not part of a tokenizer")


def _config(folder: Path) -> _TokenizerConfig:
    for name in TOKENIZER_NAMES:
        if (folder / name).is_file() and (folder / name).stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(f"{name} is larger than {_MAX_FILE_BYTES:,} bytes")
    if not (folder / _CONFIG).exists():
        return _TokenizerConfig()
    try:
        return _TokenizerConfig.model_validate(parse_json(limited_bytes(folder / _CONFIG, _MAX_CONFIG_BYTES)))
    except ValidationError as error:
        raise ValueError(f"{_CONFIG}: {first_fault(error)}") from error
    except ValueError as error:
        raise ValueError(f"{_CONFIG}: {error}") from error


def _check_class(name: str | None) -> None:
    """Refuse a class of transformers that is not a tokenizer; an unknown name is read as a plain tokenizer.json."""
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    named = tokenizer_class_from_name(name) if name else None
    if named is not None and not (isinstance(named, type) and issubclass(named, PreTrainedTokenizerBase)):
        raise ValueError(f"{_CONFIG}: tokenizer_class {name!r} is not a tokenizer that can be read here")
