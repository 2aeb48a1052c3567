"""What a bundle's manifest says of how fast its decoder runs, for the records of a measurement."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.bundle.entry_points import StateInfo
from edgec.bundle.manifest import Manifest
from edgec.devices.prediction.footprint import OWN_KERNELS
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.runtime_py.bench.record import KvBits, MeasuredModel

_BITS: dict[str, KvBits] = {"float32": 32, "float16": 16, "int8": 8, "uint8": 8}
_GRIDS, _PAIRS = "_grid", "uint8"


def measured_model(manifest: Manifest) -> MeasuredModel | None:
    """The measured decoder; None for bundles of other models, and for those that do not say it."""
    numbers, ledger, limits = manifest.model.numbers, manifest.ledger, manifest.limits
    if numbers is None or ledger is None or ledger.active_bytes is None or limits is None:
        return None
    return MeasuredModel(
        numbers=numbers,
        read_bytes=ledger.active_bytes,
        kernels=_kernels(manifest),
        kv_bits=_kv_bits(manifest.states),
        state_bytes=sum(state.bytes for state in manifest.states if state.layout == "recurrent"),
        call_tokens=limits.prefill_chunk,
    )


def _kernels(manifest: Manifest) -> str:
    """Edgec's own kernels where the artifact calls them, else the target's backend."""
    delegation = manifest.delegation
    if delegation is not None and OWN_KERNELS in delegation.backend:
        return OWN_KERNELS
    try:
        return load_target(manifest.target).backend
    except InputError:  # A phone of the user's own file.
        return delegation.backend if delegation is not None else manifest.runtime.name


def _kv_bits(states: Sequence[StateInfo]) -> KvBits:
    """Bits of cached keys; two values of 4 bits share a byte, and have a scale beside them."""
    keys = {state.role: state.dtype for state in states if state.role.startswith("key")}
    pairs = keys.get("key") == _PAIRS and any(role.endswith(_GRIDS) for role in keys)
    return 4 if pairs else _BITS.get(keys.get("key", ""), 32)
