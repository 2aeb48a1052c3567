"""Write matrices in the layouts of GPTQ and AWQ, word by word with whole numbers of Python, from their documentation.

Nothing here is shared with the reader; matrices are small, since every integer is placed by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

STORIES = Path(__file__).parents[3] / "examples" / "tiny-stories"
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Rounded:
    """A matrix on a grid: value = scale * (code - zero).

    Attributes:
        codes: [N, K], from 0 on.
        zero: [N, G].
        scale: float16 [N, G].
        groups: [K], the group of each column.
        bits: of a code.
    """

    codes: Whole
    zero: Whole
    scale: NDArray[np.float16]
    groups: Whole
    bits: int

    @property
    def values(self) -> Tensor:
        """What it means, in float64 first: float32 [N, K]."""
        exact = (self.codes - self.zero[:, self.groups]) * self.scale.astype(np.float64)[:, self.groups]
        return torch.from_numpy(exact.astype(np.float32))


def rounded(weight: Tensor, bits: int, group: int, symmetric: bool, order: Whole | None = None) -> Rounded:
    """Round to the nearest point of each group's grid.

    Args:
        weight: [N, K].
        bits: of a code.
        group: columns that share a scale; -1: all.
        symmetric: the middle code is 0.
        order: the group of each column; in order where none is given.
    """
    values, top = weight.double().numpy(), (1 << bits) - 1
    group = values.shape[1] if group == -1 else group
    groups = np.arange(values.shape[1]) // group if order is None else order
    count = int(groups.max()) + 1
    low = np.stack([values[:, groups == g].min(1) for g in range(count)], 1)
    high = np.stack([values[:, groups == g].max(1) for g in range(count)], 1)
    if symmetric:
        largest = np.maximum(np.abs(low), np.abs(high))
        scale = (largest / (top / 2) + 1e-6).astype(np.float16)
        zero = np.full(scale.shape, 1 << bits - 1)
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        scale = ((high - low) / top + 1e-6).astype(np.float16)
        zero = np.clip(np.round(-low / scale.astype(np.float64)), 1, top).astype(np.int64)
    codes = np.round(values / scale.astype(np.float64)[:, groups]) + zero[:, groups]
    return Rounded(np.clip(codes, 0, top).astype(np.int64), zero, scale, groups, bits)


def packed_words(codes: Whole, bits: int) -> Tensor:
    """Rows of integers as one long number each, cut into 32-bit words from its lowest bit on: int32 [rows, words]."""
    count = -(-codes.shape[1] * bits // 32)
    rows = []
    for row in codes.tolist():
        number = sum(code << place * bits for place, code in enumerate(row))
        rows.append([number >> 32 * word & 0xFFFFFFFF for word in range(count)])
    return torch.from_numpy(np.array(rows, np.uint32).view(np.int32).copy())


def gptq_parts(matrix: Rounded, v2: bool = False, index: bool = True) -> dict[str, Tensor]:
    """qweight, qzeros, scales and g_idx."""
    zeros = (matrix.zero - (0 if v2 else 1)) & ((1 << matrix.bits) - 1)
    parts = {
        "qweight": packed_words(matrix.codes, matrix.bits).t().contiguous(),
        "qzeros": packed_words(zeros.T, matrix.bits),
        "scales": torch.from_numpy(matrix.scale.T.copy()),
    }
    return {**parts, **({"g_idx": torch.from_numpy(matrix.groups.astype(np.int32))} if index else {})}


def awq_parts(matrix: Rounded) -> dict[str, Tensor]:
    """qweight, qzeros and scales, of eight outputs in a word."""

    def words(table: Whole) -> Tensor:
        mixed = table.reshape(len(table), -1, 8)[:, :, list(AWQ_ORDER)].reshape(len(table), -1)
        return packed_words(mixed, 4)

    return {
        "qweight": words(matrix.codes.T),
        "qzeros": words(matrix.zero.T),
        "scales": torch.from_numpy(matrix.scale.T.copy()),
    }


PartsOf = Callable[[str, Tensor], "tuple[dict[str, Tensor], Tensor]"]
"""From a module's name and its float matrix: the stored tensors by their names, and what they mean."""


def write_packed(
    folder: Path, settings: Mapping[str, Any], parts_of: PartsOf, source: Path = STORIES, beside: str = ""
) -> dict[str, Tensor]:
    """Write a trained model with the matrices of its layers quantised, and return what these mean by parameter.

    Args:
        folder: where to.
        settings: its quantization_config.
        parts_of: stores one matrix.
        source: the float model.
        beside: the file beside config.json that has the settings; empty: they stand in config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.suffix != ".safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    if beside:
        (folder / beside).write_text(json.dumps(settings))
    else:
        config["quantization_config"] = settings
    (folder / "config.json").write_text(json.dumps(config))
    tensors, meant = {}, {}
    for name, value in load_file(source / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            tensors[name] = value
            continue
        module = name.removesuffix(".weight")
        parts, meant[name] = parts_of(module, value.float())
        tensors |= {f"{module}.{part}": tensor.contiguous() for part, tensor in parts.items()}
    save_file(tensors, folder / "model.safetensors")
    return meant


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Change the tensors of a folder's one file in place."""
    file = folder / "model.safetensors"
    with safe_open(file, "pt") as stored:
        tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    change(tensors)
    save_file(tensors, file)


def change_settings(folder: Path, **changes: Any) -> None:
    """Change entries of the quantization_config; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    merged = {**config["quantization_config"], **changes}
    config["quantization_config"] = {key: value for key, value in merged.items() if value is not None}
    file.write_text(json.dumps(config))
