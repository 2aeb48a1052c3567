"""Static methods as ONNX models, executed by ONNX Runtime; keys and values are the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgec.backends.onnx.translate import missing
from edgec.errors import InputError
from edgec.ir.memory_inputs import is_memory
from edgec.ir.static_methods import PREFILL, join_logits, write_states

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_TYPES = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(uint8)": torch.uint8,
    "tensor(int32)": torch.int32,
    "tensor(int64)": torch.int64,
    "tensor(bool)": torch.bool,
}


@dataclass
class OnnxMethods:
    """The methods of one model over one set of states.

    Attributes:
        sessions: by method.
        states: their current values, by name; filled at the first call.
    """

    sessions: Mapping[str, InferenceSession]
    states: dict[str, Tensor] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return next(int(given.shape[1]) for given in self.sessions[PREFILL].get_inputs() if given.name == "tokens")

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method and write the rows that it returns."""
        return join_logits(self.outputs(method, inputs))

    def outputs(self, method: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Execute a method and return all outputs by name; inputs that it does not take are left out.

        Raises:
            InputError: E583, it reads of a source what the bundle does not give it, or ONNX Runtime refuses the values.
        """
        session = self.sessions[method]
        for feature in session.get_inputs():
            if feature.name not in inputs and feature.name not in self.states:
                if is_memory(feature.name):
                    raise refused_by_runtime(method, f"it reads {feature.name}, which it is not given")
                self.states[feature.name] = torch.zeros(feature.shape, dtype=_TYPES[feature.type])
        outputs = named_outputs(session, {**self.states, **inputs})
        write_states(self.states, outputs, int(inputs["start"]))
        return outputs


def named_outputs(session: InferenceSession, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Execute a model once; what it does not take is left out, and integers get the width that it takes.

    Raises:
        InputError: E583, ONNX Runtime refuses the values: they have other shapes than its inputs.
    """
    feeds = {each.name: given[each.name].to(_TYPES[each.type]).contiguous().numpy() for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    try:
        results = session.run(names, feeds)
    except Exception as error:  # as in cpu_session
        raise refused_by_runtime(", ".join(feeds), error) from error
    return dict(zip(names, map(torch.from_numpy, results), strict=True))


def cpu_session(model: Path) -> InferenceSession:
    """A model on ONNX Runtime's CPU kernels, with torch's number of threads.

    Raises:
        InputError: E583, the runtime refuses it.
        ToolError: E582, there is no ONNX Runtime.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing("onnxruntime", error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    # Left to itself ONNX Runtime rounds the activations of 4-bit layers to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common class.
        raise refused_by_runtime(model.name, error) from error


TensorFunction = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def open_function(path: Path, method: str | None = None) -> TensorFunction:
    """Open one model of an artifact, as a function of its inputs in order; ``method``: None for the only one.

    Raises:
        InputError: E583, ONNX Runtime refuses it, or a call gives it another number of inputs than it takes.
        ToolError: E582, there is no ONNX Runtime.
    """
    session = cpu_session(path / f"{method}.onnx" if method else next(path.glob("*.onnx")))
    names = [each.name for each in session.get_inputs()]

    def call(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        if len(inputs) != len(names):
            why = f"it takes {len(names)} inputs, and the manifest has {len(inputs)}"
            raise refused_by_runtime(method or path.name, why)
        return list(named_outputs(session, dict(zip(names, inputs, strict=True))).values())

    return call


def refused_by_runtime(where: str, why: object) -> InputError:
    """The error for a model that ONNX Runtime cannot load, or values that it cannot execute it with (E583)."""
    return InputError(
        what="ONNX Runtime refuses the model",
        where=where,
        why=" ".join(str(why).split())[:300],
        fix="export again; report it if it happens again",
        code="E583",
    )


def open_sessions(folder: Path, names: tuple[str, ...], open_one: Any = cpu_session) -> dict[str, InferenceSession]:
    """Open the models NAME.onnx of a folder; raises as ``cpu_session``."""
    return {name: open_one(folder / f"{name}.onnx") for name in names}
