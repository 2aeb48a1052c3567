"""Tell what kind of draft heads a file or folder holds, and refuse unknown kinds by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, read_object
from edgec.errors import InputError
from edgec.exporter.sources.drafts.medusa import FILE, PICKLE, MedusaFolder
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.passes.draft.head_weights import HeadsFile, StoredHeads

_CONFIG = JsonKind("The config of the draft heads is unusable.", "use the folder as it was published", "E842")
Says = Callable[[Mapping[str, Any]], bool]
# What publishes further tokens in other ways, by what its config says; the first that fits names it.
_OTHERS: tuple[tuple[str, Says], ...] = (
    ("an EAGLE folder", lambda config: _built_as(config, "Eagle") or str(config.get("model_type")) == "eagle"),
    ("an MLP speculator", lambda config: str(config.get("model_type")) == "mlp_speculator"),
    ("a Hydra folder", lambda config: any(str(key).startswith("hydra_") for key in config)),
    ("a draft model of its own", lambda config: str(config.get("model_type")).endswith("_assistant")),
    ("a whole model", lambda config: bool(config.get("architectures")) and "hidden_size" in config),
)


def open_heads(path: Path, allow_pickle: bool = False) -> StoredHeads:
    """The draft heads of a file or folder, checked for contradictions of their own.

    Args:
        path: what ``examples/train_heads.py`` wrote, or a Medusa folder.
        allow_pickle: read heads that were published as a pickle.

    Raises:
        InputError: E197, the file is none of edgec's; E842, nothing is there, or the folder is of another kind; E105,
            E107, E843, E844 as `MedusaFolder.form`.
    """
    source = _source(path, allow_pickle)
    source.form()
    return source


def is_eagle3(path: Path) -> bool:
    """Whether a folder holds an EAGLE-3 predictor, by its config.

    Raises:
        InputError: E842, the config is unusable.
    """
    if not path.is_dir() or not is_plain(path / CONFIG) or is_plain(path / FILE) or is_plain(path / PICKLE):
        return False
    config = read_object(path / CONFIG, _CONFIG)
    return "draft_vocab_size" in config or _built_as(config, "Eagle3")


def _source(path: Path, allow_pickle: bool) -> StoredHeads:
    if not path.is_dir():
        return HeadsFile(path)
    if is_plain(path / FILE) or is_plain(path / PICKLE):
        return MedusaFolder(path, allow_pickle)
    if not is_plain(path / CONFIG):
        raise unknown_heads(path, f"it holds neither {FILE} nor {PICKLE}, and no {CONFIG} that says what it is")
    config = read_object(path / CONFIG, _CONFIG)
    named = next((name for name, says in _OTHERS if says(config)), "of a kind that edgec does not know")
    raise unknown_heads(path, f"by its config it is {named}")


def unknown_heads(path: Path, why: str) -> InputError:
    """The error for a folder whose heads edgec cannot use."""
    return InputError(
        what="edgec cannot put these draft heads into an artifact.",
        where=str(path),
        why=why,
        fix="give a Medusa or EAGLE-3 folder, mtp (the checkpoint's own) or a file of examples/train_heads.py; a model "
        "of the same family drafts as a bundle: edgec run MODEL.edgec --speculate SMALL.edgec",
        code="E842",
    )


def _built_as(config: Mapping[str, Any], word: str) -> bool:
    classes = config.get("architectures")
    return isinstance(classes, list) and any(word.lower() in str(name).lower() for name in classes)
