"""A folder that holds a LoRA instead of a model, and the model that it names. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path

from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.model_forms import ADAPTER_CONFIG, existing_path, is_hub_id
from edgec.runtime_py.adapters.peft_settings import read_settings


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no model."""
    return (folder / ADAPTER_CONFIG).exists() and not (folder / CONFIG).exists()


def base_of(folder: Path) -> str:
    """The model that an adapter was trained on, as MODEL: a path, from here or from the folder, or a hub id.

    Raises:
        InputError: E691, E692; E878, none is named, it is not here, or it is an adapter itself.
    """
    named = read_settings(folder).trained_on
    found = (existing_path(named) or existing_path(named, folder)) if named else None
    if found is not None and found.is_dir() and is_adapter(found):
        raise _no_base(folder, f"{named} is an adapter itself")
    if found is None and not is_hub_id(named):
        raise _no_base(folder, f"there is no model at {named!r}" if named else "it names none")
    return str(found) if found is not None else named


def _no_base(folder: Path, why: str) -> InputError:
    return InputError(
        what="The model that the adapter was trained on is not known.",
        where=str(folder / ADAPTER_CONFIG),
        why=why,
        fix="set base_model_name_or_path there to the folder or the hub id of the model",
        code="E878",
    )
