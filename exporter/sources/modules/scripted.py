"""Modules of TorchScript, loaded or made by ``torch.jit``, as plain modules that can be traced.

    script: code over its own tensors      ==>      module: the same code, its tensors as parameters and buffers

A script keeps no Python code. What is left of it is a graph, whose tensors torch lifts to inputs
(``_jit_pass_lower_graph``) and which its interpreter runs operator by operator, so that torch.export sees each with its
shapes. A branch on values, or a state that the script writes, is refused there as in any module. A script that another
module holds is replaced in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgec.errors import EdgecError, InputError
from edgec.exporter.sources.modules.returned import returned_of

# The same kernels run in the same order, but for what torch's own optimiser joins in the script.
_SAME = 1e-5


def script_code(module: nn.Module) -> Iterator[bytes]:
    """The code and constants of each script in a module, for a digest."""
    for _, script in _scripts(module):
        yield script.save_to_buffer()


def without_scripts(module: nn.Module, inputs: Sequence[Tensor], where: str) -> nn.Module:
    """A module with a plain module in the place of each script; the module itself where there is none.

    Raises:
        InputError: E791, a script cannot be converted, or computes something else afterwards.
    """
    scripts = list(_scripts(module))
    if not scripts:
        return module
    wanted = _outputs(module, inputs, where)
    for name, script in scripts:
        plain = _converted(script, name or where)
        if not name:
            module = plain
            continue
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, plain)
    given = _outputs(module, inputs, where)
    same = len(wanted) == len(given) and all(map(_alike, wanted, given))
    if not same:
        raise _unconverted(where, "the converted script computes something else")
    return module


def script_inputs(module: nn.Module, count: int) -> tuple[str, ...]:
    """The names of the first inputs of a converted script; empty for every other module."""
    return module.names[:count] if isinstance(module, Script) else ()


def _scripts(module: nn.Module) -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """The outermost scripts in a module, by their places; "" is the module itself."""
    if isinstance(module, torch.jit.ScriptModule):
        yield "", module
        return
    for name, child in module.named_children():
        for place, script in _scripts(child):
            yield f"{name}.{place}".removesuffix("."), script


class Script(nn.Module):
    """A script as a plain module.

    Attributes:
        names: of the inputs that ``forward`` takes, in order.
    """

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        """Convert it.

        Raises:
            RuntimeError: torch cannot lift its tensors: it writes one, or holds something else.
        """
        super().__init__()
        frozen: Any = torch._C._freeze_module(script.eval()._c, preserveParameters=True)
        method = frozen._get_method("forward")
        lowered: Any = torch._C._jit_pass_lower_graph(method.graph, frozen)
        graph, tensors = lowered
        taken = script._c._get_method("forward").schema.arguments[1:]
        self.names = tuple(argument.name for argument in taken)
        self._defaults = tuple(argument.default_value for argument in taken if argument.has_default_value())
        self._run = _Interpreter(graph)
        self._places = tuple(_place(self, script, tensor) for tensor in tensors)

    def forward(self, *inputs: Any) -> Any:
        """What the script returns; inputs left out have the script's own defaults."""
        missing = len(self.names) - len(inputs)
        if not 0 <= missing <= len(self._defaults):
            raise TypeError(f"the script takes {', '.join(self.names)}; given: {len(inputs)} inputs")
        tensors = (self.get_parameter(name) if learnt else self.get_buffer(name) for name, learnt in self._places)
        return self._run((*inputs, *self._defaults[len(self._defaults) - missing :], *tensors))


class _Interpreter:
    """Runs a graph in torch's interpreter; copies of a module share it, since it holds no state."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def __call__(self, values: tuple[Any, ...]) -> Any:
        return torch._C._jit_interpret_graph(self._graph, values)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: Any) -> _Interpreter:
        return self


def _place(owner: nn.Module, script: torch.jit.ScriptModule, tensor: Tensor) -> tuple[str, bool]:
    """Hold a tensor under the name that the script has for it; returns the name, and whether it is a parameter."""
    learnt = {name: value for name, value in script.named_parameters() if value.data_ptr() == tensor.data_ptr()}
    others = {name: value for name, value in script.named_buffers() if value.data_ptr() == tensor.data_ptr()}
    same = (name for name, value in {**learnt, **others}.items() if value.shape == tensor.shape)
    name = next(same, f"constant_{len(list(owner.buffers()))}")
    part = owner
    *path, leaf = name.split(".")
    for each in path:
        if each not in part._modules:
            part.add_module(each, nn.Module())
        part = part.get_submodule(each)
    if name in learnt:
        part.register_parameter(leaf, nn.Parameter(tensor.detach(), requires_grad=False))
    else:
        part.register_buffer(leaf, tensor.detach())
    return name, name in learnt


def _converted(script: torch.jit.ScriptModule, where: str) -> Script:
    try:
        return Script(script)
    except Exception as error:  # torch's passes fail in their own ways on code that they do not know.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise _unconverted(where, reason) from error


def _outputs(module: nn.Module, inputs: Sequence[Tensor], where: str) -> tuple[Tensor, ...]:
    try:
        with torch.no_grad():
            answer = module(*(value.clone() for value in inputs))
    except EdgecError:
        raise
    except Exception as error:  # The user's code may raise anything.
        raise _unconverted(where, " ".join(str(error).split())[:200] or type(error).__name__) from error
    return returned_of(answer, where).tensors


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    noise = _SAME * max(1.0, float(one.abs().max())) if one.is_floating_point() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=0, atol=noise, equal_nan=True)


def _unconverted(where: str, why: str) -> InputError:
    return InputError(
        what="A TorchScript module cannot be converted to one that can be traced.",
        where=where,
        why=why,
        fix="return the Python module it was made from, with its weights: module.load_state_dict(script.state_dict())",
        code="E791",
    )
