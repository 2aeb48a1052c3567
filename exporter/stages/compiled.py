"""What the compile stages leave behind for verification, manifest and report: plain data, kept in the stage cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor

from edgec.bundle.manifest import (
    Delegation,
    Limits,
    LintFinding,
    MethodInfo,
    PassInfo,
    Rung,
    StateInfo,
    TensorInfo,
)
from edgec.bundle.part import JsonPart
from edgec.ir.program import Change, Dynamic, Interface, State, TensorType

ARTIFACT = "model.pte"
_FACTS, _LOGITS = "facts.json", "logits.safetensors"


class WeightFact(JsonPart):
    """One tensor of the artifact, as the compiler wanted it stored."""

    name: str
    dtype: str
    shape: list[int]
    container_bits: float
    information_bits: float
    bytes: int
    reason: str = ""


class Rewrite(JsonPart):
    """The rungs up to the last graph."""

    rungs: list[Rung]
    reference: str
    final: str


class Facts(JsonPart):
    """Everything about a lowered artifact but its bytes."""

    passes: list[PassInfo]
    methods: list[MethodInfo]
    states: list[StateInfo]
    limits: Limits | None
    delegation: Delegation
    operators: list[str]
    weights: list[WeightFact]
    expected_weight_bytes: int
    lint: list[LintFinding] = Field(default=[])


def save_facts(folder: Path, facts: Facts) -> None:
    """Write an artifact's facts beside it, into its stage's folder."""
    (folder / _FACTS).write_text(facts.model_dump_json())


def load_facts(folder: Path) -> Facts:
    """Read them back."""
    return Facts.model_validate_json((folder / _FACTS).read_text())


def save_rewrite(folder: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> None:
    """Write rungs and the logits that later stages compare with."""
    (folder / _FACTS).write_text(rewrite.model_dump_json())
    save_file({name: value.contiguous() for name, value in logits.items()}, folder / _LOGITS)


def load_rewrite(folder: Path) -> tuple[Rewrite, dict[str, Tensor]]:
    """Read them back."""
    return Rewrite.model_validate_json((folder / _FACTS).read_text()), load_file(folder / _LOGITS)


def method_info(interface: Interface, name: str = "forward") -> MethodInfo:
    """One entry point."""
    tensors = (*interface.inputs, *interface.outputs)
    dynamic = {d.name: (d.low, d.high) for t in tensors for d in t.shape if isinstance(d, Dynamic)}
    return MethodInfo(
        name=name,
        inputs=[_tensor(t) for t in interface.inputs],
        outputs=[_tensor(t) for t in interface.outputs],
        dynamic=dynamic,
    )


def _tensor(tensor: TensorType) -> TensorInfo:
    shape: list[int | str] = [d.name if isinstance(d, Dynamic) else d for d in tensor.shape]
    return TensorInfo(name=tensor.name, dtype=dtype_name(tensor.dtype), shape=shape)


def dtype_name(dtype: Any) -> str:
    """``torch.float32`` -> ``float32``."""
    return str(dtype).removeprefix("torch.")


def state_info(state: State, offset: int | None = None) -> StateInfo:
    """A state for the manifest."""
    count = 1
    for size in state.shape:
        count *= size
    return StateInfo(
        name=state.buffer,
        layer=state.layer,
        role=state.role,
        dtype=dtype_name(state.dtype),
        shape=list(state.shape),
        layout="ring" if state.layout == "ring" else "full",
        slots=state.slots,
        window=state.window,
        sink_tokens=state.sink_tokens,
        bytes=count * state.dtype.itemsize,
        offset=offset,
    )


def pass_info(change: Change) -> PassInfo:
    """A pass for the manifest; its seconds stay out, they differ from run to run."""
    plain = {key: value for key, value in change.options.items() if key not in ("name", "effect")}
    return PassInfo(
        name=change.name,
        effect=change.effect.value,
        options=plain,
        nodes_before=change.nodes_before,
        nodes_after=change.nodes_after,
        bytes_before=change.bytes_before,
        bytes_after=change.bytes_after,
    )
