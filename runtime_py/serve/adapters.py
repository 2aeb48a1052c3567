"""Adapters that are served beside their bundle, each as a model of its own: ``BUNDLE:NAME``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgec.devices.simulators import simulator_elsewhere
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import Adapter, read_adapter
from edgec.runtime_py.adapters.use import UsedAdapter
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.hosted import Hosted

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
ServedAdapters = Mapping[str, Adapter]
"""Adapters' files by the name that requests use."""


@dataclass(frozen=True)
class ServedModel:
    """What requests may name: a bundle that writes, alone or under an adapter.

    Attributes:
        name: the bundle's, or ``BUNDLE:NAME``.
        hosted: the bundle.
        adapter: None for the bundle alone.
    """

    name: str
    hosted: Hosted
    adapter: UsedAdapter | None


def served_models(hosted: Hosted) -> list[ServedModel]:
    """A bundle alone, and under each of its adapters."""
    under = [ServedModel(f"{hosted.name}:{name}", hosted, adapter) for name, adapter in hosted.adapters.items()]
    return [ServedModel(hosted.name, hosted, None), *under]


def read_adapters(given: Sequence[str]) -> ServedAdapters:
    """Read the adapters that a command names, each as ``NAME=FILE``.

    Raises:
        InputError: E695, a file is damaged; E700, a name is not possible or occurs twice.
    """
    read: dict[str, Adapter] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or not _NAME.fullmatch(name) or name in read:
            why = f"{name!r:.80} occurs twice" if name in read else "a name has letters, digits, '.', '_' and '-'"
            raise InputError("Not an adapter with a name.", f"--adapter {text[:80]}", why, "give NAME=FILE", "E700")
        read[name] = read_adapter(Path(file))
    return read


def fitting(adapters: ServedAdapters, model: Model) -> Mapping[str, UsedAdapter]:
    """Those that were made for a bundle's artifact, each copied into the engine already, or those that are part of it.

    Raises:
        ToolError: E697, something else than edgec's engine executes the bundle.
    """
    if model.bundle.manifest.limits is None:
        return {}
    if simulator_elsewhere(model.bundle.manifest):
        return {one.name: one for one in model.bundle.manifest.adapters}
    own = {name: one for name, one in adapters.items() if one.base == artifact_digest(model.bundle)}
    for one in own.values():
        model.adapter = one
    model.adapter = None
    return own


def refuse_unused(adapters: ServedAdapters, hosted: Sequence[object]) -> None:
    """Refuse adapters that no served bundle takes.

    Raises:
        InputError: E696.
    """
    used = [adapter for one in hosted if isinstance(one, Hosted) for adapter in one.adapters.values()]
    for name, adapter in adapters.items():
        if not any(one is adapter for one in used):
            raise InputError(
                "The adapter belongs to another bundle.",
                where=f"--adapter {name}",
                why=f"it was made for the artifact {adapter.base[:12]}, which is not served",
                fix="make one for a served bundle: edgec adapter BUNDLE PEFT_FOLDER",
                code="E696",
            )
