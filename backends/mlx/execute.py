"""Execute the MLX program of a .pte: instruction by instruction, over ``mlx`` for this machine's CPU.

The instructions, the shapes and the rounding between them are those of ExecuTorch's delegate, and the library is the
one that the delegate calls; on a phone its kernels run on the GPU, which sums in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgec.backends.mlx.instructions import DTYPES, dtype, functions
from edgec.backends.mlx.program import (
    MlxInstruction,
    MlxInteger,
    MlxProgram,
    MlxTensor,
    TensorForm,
    read_mlx_program,
    unreadable,
)
from edgec.backends.mlx.tools import mlx_core

EXECUTED_BY = "executed instruction by instruction by edgec's interpreter over mlx, for this CPU (simulated)"
_RESULTS = ("out",)


@dataclass
class MlxMethods:
    """A program's one method as the static methods of a decoder, which feed it a chunk or a token.

    Attributes:
        program: as it was read.
        chunk: tokens that one call takes at most.
        slots: tensors by slot; constants and states stay.
    """

    program: MlxProgram
    chunk: int
    slots: dict[MlxTensor, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Place constants and empty states, and run what runs once."""
        self._require_known()
        forms = self.program.forms
        self.slots.update({slot: _constant(raw, forms[slot]) for slot, raw in self.program.constants.items()})
        for slot in self.program.states:
            self.slots[slot] = mlx_core().zeros(forms[slot].shape, dtype(forms[slot].scalar_type))
        self._run(self.program.first)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Feed the tokens of a call without their padding: logits of the last, float32 [V]."""
        size, start = int(inputs["last"]) + 1, int(inputs["start"])
        tokens = mlx_core().array(inputs["tokens"][:, :size].long().numpy())
        positions = mlx_core().arange(start, start + size, dtype=mlx_core().int64)
        for slot, value in zip(self.program.inputs, (tokens, positions), strict=True):
            self.slots[slot] = value
        self._run(self.program.main)
        mlx_core().eval([self.slots[slot] for slot in (*self.program.outputs, *self.program.states)])
        (logits,) = (self.slots[slot] for slot in self.program.outputs)
        return torch.from_numpy(np.array(logits.astype(mlx_core().float32))).reshape(-1)

    def _require_known(self) -> None:
        every = {each.operator for each in (*self.program.first, *self.program.main)}
        if unknown := sorted(every - set(functions())):
            raise unreadable("model.pte", f"edgec's interpreter has no {', '.join(unknown)}")

    def _run(self, instructions: Sequence[MlxInstruction]) -> None:
        values: dict[MlxInteger, int] = {}
        for index, each in enumerate(instructions):
            given = {name: self._resolved(value, values) for name, value in each.fields.items() if name not in _RESULTS}
            try:
                made = functions()[each.operator](**given)
            except Exception as cause:
                raise unreadable("model.pte", f"instruction {index}, {each.operator}: {cause}") from cause
            out = each.fields["out"]
            (values if isinstance(out, MlxInteger) else self.slots)[out] = made

    def _resolved(self, value: Any, values: Mapping[MlxInteger, int]) -> Any:
        if isinstance(value, list):
            return [self._resolved(each, values) for each in value]
        if isinstance(value, MlxTensor):
            return self.slots[value]
        return values[value] if isinstance(value, MlxInteger) else value


def _constant(raw: bytes, form: TensorForm) -> Any:
    mx = mlx_core()
    name = DTYPES[form.scalar_type].removesuffix("_")
    if name == "bfloat16":
        return mx.array(np.frombuffer(raw, np.uint16).reshape(form.shape)).view(mx.bfloat16)
    return mx.array(np.frombuffer(raw, name).reshape(form.shape))


def execute(path: Path) -> MlxMethods:
    """Load a program's method.

    Raises:
        InputError: E872, it is another file, or has an operator that the interpreter does not.
        ToolError: E871, ``mlx`` or ExecuTorch's delegate is not installed.
    """
    program = read_mlx_program(path)
    return MlxMethods(program, most_tokens(path))


def most_tokens(path: Path) -> int:
    """The most tokens that a call takes: the value of the program's constant ``get_max_seq_len``."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    plans = deserialize_pte_binary(path.read_bytes()).program.execution_plan
    plan = next(each for each in plans if each.name == "get_max_seq_len")
    value: Any = plan.values[plan.outputs[0]].val
    return int(value.int_val)
