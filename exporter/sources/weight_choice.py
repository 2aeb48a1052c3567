"""Which files of a folder hold its weights: those that transformers reads, in its order.

    what config.json names as transformers_weights
    model.safetensors, model.safetensors.index.json
    pytorch_model.bin, pytorch_model.bin.index.json
    the only other file of tensors

A whole file and shards beside it are compared: where they differ, either may be the older one, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.model_forms import ADAPTER_CONFIG
from edgec.exporter.sources.files.pickle_weights import PickledWeights, open_pickles, pickle_files
from edgec.exporter.sources.files.plain_files import is_plain, plain_files
from edgec.exporter.sources.gguf.weights import GgufWeights
from edgec.exporter.sources.packed.weights import PackedWeights
from edgec.exporter.sources.weights.names import same_values
from edgec.exporter.sources.weights.streamed import (
    SHARD_NAME,
    SINGLE,
    WeightFiles,
    no_weights,
    open_files,
    open_indexed,
    shard_files,
)

StoredWeights = WeightFiles | PickledWeights | GgufWeights | PackedWeights
_PICKLE = "pytorch_model.bin"
_INDEX_SUFFIX = ".index.json"
_SAFE_SUFFIX = ".safetensors"
# Mistral's own copy of the same tensors under other names, and LoRA adapters.
_NOT_THE_MODEL = ("consolidated", "adapter_model")
_SHOWN = 4


@dataclass(frozen=True)
class _Candidate:
    """A whole file, or the index of its shards, and how such files are opened."""

    single: Path
    open: Callable[[tuple[Path, ...]], StoredWeights]

    @property
    def index(self) -> Path:
        return self.single.with_name(self.single.name + _INDEX_SUFFIX)


def stored_weights(folder: Path, allow_pickle: bool, named: object = None) -> StoredWeights:
    """Open a folder's weights.

    Args:
        folder: of a model, or of a part of one.
        allow_pickle: open pickles (data only).
        named: the config's ``transformers_weights``, if it has any.

    Raises:
        InputError: E104 (there is only a config), E105, E107, E112, E124 (two candidates that differ, or an adapter
            beside the model) or E125.
    """
    if is_plain(folder / ADAPTER_CONFIG):
        raise _adapter_beside(folder)
    if named is not None:
        return _named(folder, named)
    pickles = partial(open_pickles, allow_pickle=allow_pickle)
    candidates = (_Candidate(folder / SINGLE, open_files), _Candidate(folder / _PICKLE, pickles))
    for candidate in candidates:
        opened = _opened(candidate)
        if opened is not None:
            return opened
    return _only_other(folder, pickles)


def _opened(candidate: _Candidate) -> StoredWeights | None:
    has_single, has_index = is_plain(candidate.single), is_plain(candidate.index)
    if not has_single:
        return open_indexed(candidate.index, candidate.open) if has_index else None
    whole = candidate.open((candidate.single,))
    shards = shard_files(candidate.index) if has_index else ()
    # An index whose shards are gone was left by an earlier save.
    if shards and all(map(is_plain, shards)) and shards != (candidate.single,):
        _check_copies(whole, open_indexed(candidate.index, candidate.open), candidate)
    return whole


def _check_copies(whole: StoredWeights, parts: StoredWeights, candidate: _Candidate) -> None:
    names = whole.names().keys()
    if names != parts.names().keys() or not all(same_values(whole.tensor(n), parts.tensor(n)) for n in names):
        raise _ambiguous(
            candidate.single.parent,
            f"{candidate.single.name} and the shards of {candidate.index.name} hold different tensors",
            "Remove the older of the two; transformers reads the whole file.",
        )


def _named(folder: Path, named: object) -> StoredWeights:
    name = named if isinstance(named, str) else ""
    file = folder / name
    if not SHARD_NAME.fullmatch(name) or not name.endswith((_SAFE_SUFFIX, _SAFE_SUFFIX + _INDEX_SUFFIX)):
        raise no_weights(folder / CONFIG, f"transformers_weights is {named!r}, not a file of safetensors in the folder")
    if not is_plain(file):
        raise no_weights(folder, f"{CONFIG} names {name} as transformers_weights, and it is absent")
    return open_files((file,)) if name.endswith(_SAFE_SUFFIX) else open_indexed(file, open_files)


def _only_other(folder: Path, pickles: Callable[[tuple[Path, ...]], PickledWeights]) -> StoredWeights:
    """The one file of tensors under another name; safetensors before pickles."""
    found = plain_files(folder, f"*{_SAFE_SUFFIX}")
    safe = tuple(file for file in found if not file.name.startswith(_NOT_THE_MODEL))
    files = safe or pickle_files(folder)
    if len(files) > 1:
        raise _ambiguous(
            folder,
            f"none is named {SINGLE} or {_PICKLE}, there is no index, and any may be meant: {_list(files)}",
            f"Name the model's file {SINGLE}, or copy the index of its shards into the folder.",
        )
    if files:
        return open_files(files) if safe else pickles(files)
    if {item.suffix for item in _files(folder)} <= {".json"}:
        raise _only_config(folder)
    beside = f"; {_list(found)} is not what transformers reads" if found else ""
    raise no_weights(folder, f"neither {SINGLE} nor its index was found{beside}")


def _files(folder: Path) -> Iterator[Path]:
    return (item for item in folder.iterdir() if item.is_file())


def _list(files: Sequence[Path]) -> str:
    rest = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(file.name for file in files[:_SHOWN]) + rest


def _ambiguous(folder: Path, why: str, fix: str) -> InputError:
    return InputError("It is not clear which file holds the weights.", str(folder), why, fix, "E124")


def _adapter_beside(folder: Path) -> InputError:
    return InputError(
        what="The model's folder holds a LoRA adapter too.",
        where=str(folder / ADAPTER_CONFIG),
        why="transformers adds the adapter to the model that this file names; edgec would leave it out",
        fix=f"Merge it (peft: model.merge_and_unload()), save that, and pass its folder; without {ADAPTER_CONFIG} "
        "the model is exported as it is.",
        code="E124",
    )


def _only_config(folder: Path) -> InputError:
    return InputError(
        what="There is a config, but there are no weights.",
        where=str(folder / CONFIG),
        why="the folder holds neither safetensors nor any other weights",
        fix="Pass --random-weights to export the architecture alone, or put model.safetensors next to the config.",
        code="E104",
    )
