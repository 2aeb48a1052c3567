"""Make an adapter's file: a LoRA that PEFT trained, bound to a bundle once every module, size and number fits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.bundle.adapter_targets import AdapterTarget, AdapterTargets, targets_of
from edgec.bundle.folder import Bundle, existing_output, open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.tensor_file import FloatTensor
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import MOST_RANK, Adapter, AdapterModule, adapter, write_adapter
from edgec.runtime_py.adapters.peft_folder import PeftFolder, PeftModule, read_peft
from edgec.runtime_py.engines.open_artifact import artifact_digest

_NAMED = 3


@dataclass(frozen=True)
class MadeAdapter:
    """A written adapter: its path, its bytes, and what it holds."""

    path: Path
    bytes: int
    adapter: Adapter


def make_adapter(bundle: Path, folder: Path, out: Path | None = None, force: bool = False) -> MadeAdapter:
    """Make an adapter's file for a bundle of a LoRA that PEFT trained.

    Args:
        bundle: the bundle folder, NAME.edgec, or its address on the hub; it is not changed.
        folder: PEFT's, with adapter_config.json and adapter_model.safetensors.
        out: the file; None: ``FOLDER.adapter`` in the working directory.
        force: replace an existing file.

    Raises:
        InputError: E120 to E122, the file cannot be written; E13x, the bundle is damaged; E690, it takes no adapters;
            E691, the folder cannot be read; E692, it uses what edgec does not support; E693, it changes what the bundle
            does not have; E694, a matrix does not fit.
    """
    path = out or Path(f"{folder.resolve().name}.adapter")
    if os.path.lexists(path) and not force:
        raise existing_output(path)
    made = bind(read_peft(folder), open_bundle(bundle_folder(bundle)))
    return MadeAdapter(path, write_adapter(made, path), made)


def bind(lora: PeftFolder, bundle: Bundle) -> Adapter:
    """Bind a LoRA to a bundle: every module is a matrix that edgec's kernels multiply by, and fits it.

    Raises:
        InputError: E690, E693, E694.
    """
    every = targets_of(bundle)
    targets = {target.name: target for target in every.targets}
    unknown = [module.name for module in lora.modules if module.name not in targets]
    if unknown:
        raise no_target(lora, unknown, _outside(bundle, every, unknown))
    for module in lora.modules:
        if targets[module.name].key in every.shared:
            raise no_target(lora, [module.name], "its bytes are those of another module, which would change with it")
    changes = [_change(lora, module, targets) for module in lora.modules]
    return adapter(artifact_digest(bundle), lora.settings.trained_on, changes)


def _change(
    lora: PeftFolder, module: PeftModule, targets: Mapping[str, AdapterTarget]
) -> tuple[AdapterModule, FloatTensor, FloatTensor]:
    target, rank = targets[module.name], lora.settings.rank_of(module.name)
    check_fit(lora, module, target.rows, target.width)
    alpha, scale = lora.settings.alpha_of(module.name), lora.settings.scale_of(module.name)
    made = AdapterModule(name=module.name, key=target.key, rank=rank, alpha=alpha, scale=scale)
    return made, module.a, module.b


def check_fit(lora: PeftFolder, module: PeftModule, rows: int, width: int) -> None:
    """Refuse a module's A and B that do not fit a matrix [rows, width], or that no computation could use.

    Raises:
        InputError: E694.
    """
    rank = lora.settings.rank_of(module.name)
    for side, tensor, shape in (("lora_A", module.a, (rank, width)), ("lora_B", module.b, (rows, rank))):
        if tensor.shape != shape:
            raise _no_fit(lora, f"{module.name}.{side} has the shape {list(tensor.shape)} instead of {list(shape)}")
        if not np.isfinite(tensor.floats()).all():
            raise _no_fit(lora, f"{module.name}.{side} holds numbers that are not finite")
    if rank > MOST_RANK:
        raise _no_fit(lora, f"{module.name} has the rank {rank}; at most {MOST_RANK}")


def _outside(bundle: Bundle, every: AdapterTargets, names: list[str]) -> str:
    """Why the bundle has no such targets: it does not have the modules, or something else computes them."""
    rows = bundle.manifest.ledger.rows if bundle.manifest.ledger else []
    held = [name for name in names if any(row.name.startswith(f"{name}.weight") for row in rows)]
    if held:
        what = "float weights stay with XNNPACK; tables and experts have kernels apart"
        return f"edgec's own kernels for linear layers do not compute {_listed(held)}: {what}"
    return f"the bundle has no such modules; it has {_listed([target.name for target in every.targets])}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def no_target(lora: PeftFolder, names: list[str], why: str) -> InputError:
    """The refusal of an adapter that changes modules which cannot be changed (E693)."""
    return InputError(
        f"The adapter changes what this bundle cannot change: {_listed(names)}.",
        where=str(lora.path),
        why=why,
        fix="use the bundle of the model that the adapter was trained for, or train it with other target_modules",
        code="E693",
    )


def _no_fit(lora: PeftFolder, why: str) -> InputError:
    return InputError(
        "The adapter does not fit this bundle.",
        where=str(lora.path),
        why=why,
        fix="use the bundle of the model that the adapter was trained for",
        code="E694",
    )
