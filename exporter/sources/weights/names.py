"""Match stored tensors to a model's parameters, and check that all of them match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from edgec.errors import InputError
from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.weights.streamed import Weights

NamedShapes = Mapping[str, tuple[int, ...]]
# (prefix of the parameter, prefix it may have in a file); multimodal checkpoints nest their language model.
_PREFIXES = (
    ("", ""),
    ("model.", "model.language_model."),
    ("model.", "language_model.model."),
    ("model.", "model.text_model."),
    ("model.", ""),
    ("lm_head.", "language_model.lm_head."),
)
# Buffers that old checkpoints stored and that models compute themselves.
_COMPUTED = (r"rotary_emb\.inv_freq$", r"\.masked_bias$", r"\.attn\.bias$", r"position_ids$", r"num_batches_tracked$")
_SHOWN = 3
# Values that are compared at a time where two tensors have different dtypes.
_COMPARED = 1 << 22


@dataclass(frozen=True)
class NameTolerance:
    """What a checkpoint may lack or hold beyond the model.

    Attributes:
        tied: parameter -> the parameter whose tensor it shares.
        absent: regular expressions of parameters that may be missing.
        zeroed: regular expressions of parameters that may be missing and are then zero.
        surplus: regular expressions of stored tensors that may go unused.
        computed: parameters that may be missing because the family computes them: its tables of positions.
    """

    tied: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    computed: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class BoundWeights:
    """Weights under the parameter names of the model they belong to.

    Attributes:
        base: the weights under their own names.
        matched: parameter -> name in ``base``.
        absent: parameters that have no tensor, and need none (see NameTolerance).
        zeroed: parameters that have no tensor and are zero, with their shapes.
        computed: parameters that have no tensor and were computed.
        untied: parameters that the model's class ties and the checkpoint does not (the lm_head of Flan-T5).
    """

    base: Weights
    matched: Mapping[str, str]
    absent: frozenset[str] = frozenset()
    zeroed: NamedShapes = field(default_factory=dict)
    computed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    untied: tuple[str, ...] = ()

    def names(self) -> Mapping[str, TensorEntry]:
        """Every parameter's stored dtype and shape; parameters tied to another one are not repeated."""
        entries = self.base.names()
        matched = {name: entries[stored] for name, stored in self.matched.items()}
        made = {**self.zeroed, **{name: tuple(value.shape) for name, value in self.computed.items()}}
        return {**matched, **{name: TensorEntry(torch.float32, tuple(shape)) for name, shape in made.items()}}

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor of one parameter, in its stored dtype."""
        if name in self.computed:
            return self.computed[name]
        if name in self.zeroed:
            return torch.zeros(tuple(self.zeroed[name]))
        return self.base.tensor(self.matched[name])


def match_names(
    expected: Iterable[str], available: Iterable[str], tied: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Find the stored name of each parameter; parameters without one are left out.

    Args:
        expected: the model's parameter names, tied ones only once.
        available: the stored names.
        tied: parameter -> the expected parameter it shares its tensor with.
    """
    stored = set(available)
    twins: dict[str, list[str]] = {}
    for twin, owner in (tied or {}).items():
        twins.setdefault(owner, []).append(twin)
    matches = {name: _find((name, *twins.get(name, ())), stored) for name in expected}
    return {name: match for name, match in matches.items() if match is not None}


def check_weights(expected: NamedShapes, weights: Weights, tolerance: NameTolerance | None = None) -> BoundWeights:
    """Bind weights to a model's parameters, or report how the two contradict each other.

    Args:
        expected: shape of each parameter and stored buffer, tied ones only once.
        weights: the weights under the checkpoint's names.
        tolerance: what may be missing or left over; by default only buffers that models compute themselves.

    Raises:
        InputError: E106, naming missing, unexpected and mismatched tensors.
    """
    tolerance = tolerance or NameTolerance()
    entries = weights.names()
    matched = match_names(expected, entries, tolerance.tied)
    without = {name: shape for name, shape in expected.items() if name not in matched}
    needless = (*tolerance.absent, *tolerance.zeroed, *_COMPUTED)
    computed = {name: tolerance.computed[name] for name in without if name in tolerance.computed}
    missing = [name for name in without if name not in computed and not _any(needless, name)]
    twins = match_names(tolerance.tied, entries)
    unused = entries.keys() - set(matched.values()) - set(twins.values())
    unexpected = [name for name in sorted(unused) if not _any((*tolerance.surplus, *_COMPUTED), name)]
    mismatched = [
        f"{name}: the config says {list(expected[name])}, the weights hold {list(entries[stored].shape)}"
        for name, stored in matched.items()
        if tuple(entries[stored].shape) != tuple(expected[name])
    ]
    if missing or unexpected or mismatched:
        raise _contradiction(missing, unexpected, mismatched)
    zeroed = {name: shape for name, shape in without.items() if _any(tolerance.zeroed, name)}
    return BoundWeights(weights, matched, frozenset(without) - zeroed.keys() - computed.keys(), zeroed, computed)


def untied_weights(tied: Mapping[str, str], weights: Weights) -> tuple[str, ...]:
    """The parameters of which a checkpoint holds another tensor than that of the parameter they are tied to.

    transformers 5 loads these as tensors of their own, whatever the config says. Every value is compared.

    Args:
        tied: parameter -> the parameter whose tensor it shares.
        weights: under the checkpoint's names.
    """
    entries = weights.names()
    twins, owners = match_names(tied, entries), match_names(set(tied.values()), entries, tied)
    pairs = [(name, twin, owners[tied[name]]) for name, twin in twins.items()]
    differ = (
        name
        for name, twin, owner in pairs
        if twin != owner and not same_values(weights.tensor(twin), weights.tensor(owner))
    )
    return tuple(sorted(differ))


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one shape and equal values, whatever their dtypes."""
    if one.shape != other.shape or one.dtype == other.dtype:
        return one.shape == other.shape and torch.equal(one, other)
    parts = zip(one.reshape(-1).split(_COMPARED), other.reshape(-1).split(_COMPARED), strict=True)
    return all(torch.equal(mine.double(), theirs.double()) for mine, theirs in parts)


def adapted_absence(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters that a model changed by ``edgec adapt`` does not have, as regular expressions.

    ``config["edgec"]`` records the change: with shared K/V in mode ``reuse`` the layers from ``boundary`` on have no
    key and value projections.
    """
    record = config.get("edgec")
    if not isinstance(record, Mapping) or record.get("mode") != "reuse":
        return ()
    boundary, count = record.get("boundary"), config.get("num_hidden_layers")
    if not isinstance(boundary, int) or not isinstance(count, int):
        return ()
    layers = "|".join(str(index) for index in range(boundary, count))
    return (rf"\.layers\.({layers})\.self_attn\.[kv]_(proj|norm)\.",) if layers else ()


def recorded_scales(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Tensors of learned scales that ``edgec adapt`` stored with the weights, as regular expressions."""
    record = config.get("edgec")
    grids = record.get("grids") if isinstance(record, Mapping) else None
    return tuple(f"^{re.escape(str(name))}$" for name in grids) if isinstance(grids, Mapping) else ()


def _find(names: Iterable[str], stored: set[str]) -> str | None:
    candidates = (
        there + name.removeprefix(here) for name in names for here, there in _PREFIXES if name.startswith(here)
    )
    return next((candidate for candidate in candidates if candidate in stored), None)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _contradiction(missing: list[str], unexpected: list[str], mismatched: list[str]) -> InputError:
    groups = (("missing", missing), ("unexpected", unexpected), ("of another shape", mismatched))
    return InputError(
        what="The config contradicts the weights.",
        where=", ".join(f"{len(names)} {kind}" for kind, names in groups if names),
        why="; ".join(f"{kind}: {_shorten(names)}" for kind, names in groups if names),
        fix="Use config.json and weights of the same revision, and with --task a task the checkpoint was trained for.",
        code="E106",
    )


def _shorten(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
