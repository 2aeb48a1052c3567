"""What the stages leave for verification, manifest and report: plain data, kept in the stage cache."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor

from edgec.bundle.adapter_targets import AdapterTargets
from edgec.bundle.checkpoint_matrices import CheckpointMatrix
from edgec.bundle.entry_points import Limits, MethodInfo, StateInfo, TensorInfo
from edgec.bundle.findings import Delegation, LintFinding, Rung
from edgec.bundle.manifest import PassInfo
from edgec.bundle.part import JsonPart
from edgec.bundle.predictor import PredictorInfo
from edgec.exporter.parity.execution_noise import Noise
from edgec.exporter.parity.further import FurtherFigures
from edgec.ir.program import Change, Dynamic, Interface, Program, State, TensorType

ARTIFACT = "model.pte"
_FACTS, _LOGITS = "facts.json", "logits.safetensors"


class WeightFact(JsonPart):
    """One tensor of the artifact, as the compiler wanted it stored; ``active``: the share that one token reads."""

    name: str
    dtype: str
    shape: list[int]
    container_bits: float
    information_bits: float
    bytes: int
    reason: str = ""
    active: float = 1.0


class Rewrite(JsonPart):
    """What ``rewrite`` leaves: the rungs up to the last graph, the names of the stages to compare with, and a text.

    ``noise``: how far two right executions of the last graph differ; ``further``: its quality at further positions.
    ``stored``: what became of the matrices that the checkpoint stores as integers.
    ``judged_on``: the inputs that a module is judged on, in words; ``wider``: its layers with more bits than asked for.
    """

    rungs: list[Rung]
    reference: str
    final: str
    text: list[int] = Field(default=[])
    noise: Noise | None = None
    further: FurtherFigures | None = None
    stored: list[CheckpointMatrix] = Field(default=[])
    judged_on: str = ""
    wider: str = ""


class Facts(JsonPart):
    """Everything about a lowered artifact but its bytes.

    ``delegation``: None where another program computes all of it. ``largest``: of its values, where it computes in
    float16; ``read_back``: how many packed matrices were read from the file again and are those of the graph.
    ``states``: of all methods but the predictor's, which ``predictor`` has.
    """

    passes: list[PassInfo]
    methods: list[MethodInfo]
    states: list[StateInfo]
    limits: Limits | None
    delegation: Delegation | None
    operators: list[str]
    weights: list[WeightFact]
    expected_weight_bytes: int
    lint: list[LintFinding] = Field(default=[])
    adapter_targets: AdapterTargets | None = None
    largest: str = ""
    read_back: int = 0
    predictor: PredictorInfo | None = None


def save_facts(folder: Path, facts: Facts) -> None:
    """Write an artifact's facts into its stage's folder."""
    (folder / _FACTS).write_text(facts.model_dump_json())


def load_facts(folder: Path) -> Facts:
    """Read the facts that ``save_facts`` wrote."""
    return Facts.model_validate_json((folder / _FACTS).read_text())


def save_rewrite(folder: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> None:
    """Write the rungs, and the logits that later stages compare with."""
    (folder / _FACTS).write_text(rewrite.model_dump_json())
    save_file({name: value.contiguous() for name, value in logits.items()}, folder / _LOGITS)


def load_rewrite(folder: Path) -> tuple[Rewrite, dict[str, Tensor]]:
    """Read the rungs and logits that ``save_rewrite`` wrote."""
    return Rewrite.model_validate_json((folder / _FACTS).read_text()), load_file(folder / _LOGITS)


def method_info(interface: Interface, name: str = "forward") -> MethodInfo:
    """An entry point for the manifest."""
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
    """The name of a torch dtype: ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def state_info(state: State, offset: int | None = None) -> StateInfo:
    """A state for the manifest."""
    return StateInfo(
        name=state.buffer,
        layer=state.layer,
        role=state.role,
        dtype=dtype_name(state.dtype),
        shape=list(state.shape),
        layout=state.layout,
        slots=state.slots,
        window=state.window,
        sink_tokens=state.sink_tokens,
        bytes=prod(state.shape) * state.dtype.itemsize,
        offset=offset,
    )


def pass_info(change: Change) -> PassInfo:
    """A pass for the manifest, without its seconds, which differ from run to run."""
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


def passes_of(program: Program, method: str = "") -> list[PassInfo]:
    """The passes of a program for the manifest; ``method`` stands among their options where a model has several."""
    passes, named = [pass_info(change) for change in program.history], {"method": method} if method else {}
    return [info.model_copy(update={"options": {**named, **info.options}}) for info in passes]
