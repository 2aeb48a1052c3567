"""The format ``qnn``: context binaries for one Snapdragon, with the few operators that its CPU runs.

    model.qnn/part_0/
      host_prefill.onnx, host_decode.onnx, weights.bin     embedding, masks, rotary rows: ONNX Runtime's CPU kernels
      prefill.onnx, decode.onnx, ..._qnn.bin               wrappers, and the context with the weights of both
    soc_model.txt, inputs.txt                              Qualcomm's number of the chip; names of the inputs in order

graph -> parts below the context's limit -> host and Hexagon -> 1x1 convolutions -> fixed point -> compiler

A non-decoder model has one method, ``main``, in one part, and often nothing for the CPU (``function.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from edgec.backends.onnx.methods import OnnxMethods, cpu_session, open_sessions
from edgec.backends.onnx.onnx_form import WrittenNorms
from edgec.backends.onnx.translate import TABLES, WHOLE_NORMS, translated
from edgec.backends.onnx.weight_file import WEIGHTS, folder_layout, write_models
from edgec.backends.onnx.work import work_of
from edgec.backends.qnn.calibrate import FloatRun, calibrated, exemplified
from edgec.backends.qnn.fixed_point import fixed_feed, write_fixed_point
from edgec.backends.qnn.float_weights import FloatWeights, grids
from edgec.backends.qnn.host_part import split_host
from edgec.backends.qnn.hosted_work import HostedWork
from edgec.backends.qnn.htp import compile_contexts
from edgec.backends.qnn.layer_losses import layer_losses, load_losses, said, save_losses
from edgec.backends.qnn.narrow_mask import NarrowMask
from edgec.backends.static_artifact import Chip, LoweringProgress, StaticArtifact
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.errors import ToolError
from edgec.ir.program import Interface, Program, State
from edgec.ir.static_methods import DECODE, PREFILL, join_logits
from edgec.passes.contract import run_pass
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.parts.cut_model import HIDDEN, NEXT, cut_model, stored_sizes

EXECUTED_BY = "executed by Qualcomm's emulation of the Hexagon processor (simulated)"
SOC, INPUTS, FIXED_POINT = "soc_model.txt", "inputs.txt", "fixed_point"
_PARTS = "part_"
_METHODS = (PREFILL, DECODE)


def lower_for(methods: Mapping[str, Program], path: Path, progress: LoweringProgress, chip: Chip) -> StaticArtifact:
    """Write the artifact, and next to it in ``fixed_point`` the models that the CPU checks it against.

    Raises:
        InputError: E408, E590, E591 or E593: the model has no form there.
        ToolError: E582 or E592: ONNX's or Qualcomm's tools are not installed.
    """
    path.mkdir()
    (path / SOC).write_text(f"{chip.soc_model}\n")
    names = [tensor.name for tensor in next(iter(methods.values())).interface.inputs]
    (path / INPUTS).write_text("".join(f"{name}\n" for name in names))
    cut = {name: cut_model(program, stored_sizes(program), chip.context_bytes) for name, program in methods.items()}
    pairs = {name: [_divided(part) for part in parts] for name, parts in cut.items()}
    progress("calibrate", 0, 3)
    run = exemplified(pairs, names, chip.examples) if chip.examples else calibrated(pairs, chip.tokens)
    work = HostedWork()
    for index in range(len(next(iter(pairs.values())))):
        here = {name: parts[index] for name, parts in pairs.items()}
        progress("quantise", 1, 3)
        _write_part(here, index, path, run, work)
        progress("compile", 2, 3)
        both = (path.parent / FIXED_POINT / f"{_PARTS}{index}", path / f"{_PARTS}{index}")
        compile_contexts({both[0] / f"{name}.onnx": both[1] / f"{name}.onnx" for name in here}, chip.soc_model)
    interfaces = {name: _byte_states(program.interface) for name, program in methods.items()}
    return StaticArtifact(interfaces, work.delegation(sum(map(len, pairs.values()))))


def _divided(program: Program) -> tuple[Program, Program]:
    """Split a part into the CPU's half and Hexagon's, ready for ONNX; Hexagon's weights are still quantised."""
    host, npu = split_host(run_pass(program, NarrowMask()))
    return host, run_pass(run_pass(npu, WrittenNorms()), LinearToConv2d())


def _write_part(
    here: Mapping[str, tuple[Program, Program]], index: int, path: Path, run: FloatRun, work: HostedWork
) -> None:
    """Write the CPU's models into the artifact and the fixed-point ones next to it; ``work`` counts both."""
    folder = path / f"{_PARTS}{index}"
    hosts = {name: translated(host, name, TABLES) for name, (host, _) in here.items() if host.interface.outputs}
    for name, model in hosts.items():
        work.hosted.setdefault(name, []).append(work_of(model))
    write_models({f"host_{name}": model for name, model in hosts.items()}, folder)
    quantised = path.parent / FIXED_POINT / folder.name
    quantised.mkdir(parents=True, exist_ok=True)
    first = next(iter(here))
    for name, (_, npu) in here.items():
        with TemporaryDirectory(dir=quantised) as scratch:
            source = Path(scratch) / "float"
            model = translated(run_pass(npu, FloatWeights()), name, TABLES, WHOLE_NORMS)
            work.accelerated.setdefault(name, []).append(work_of(model))
            write_models({name: model}, source)
            feeds, weights = run.feeds(f"{name}_{index}"), grids(npu)
            both = source / f"{name}.onnx", quantised / f"{name}.onnx"
            write_fixed_point(*both, feeds, weights, run.ranges)
            if name == first:
                feed = next(iter(run.feeds(f"{name}_{index}")))
                save_losses(quantised, layer_losses(*both, fixed_feed(feed, run.ranges)))


def _byte_states(interface: Interface) -> Interface:
    """The interface as the artifact has it: keys and values are bytes."""
    names = {state.buffer for state in interface.states}
    held = {*names, *(f"new_{name}" for name in names)}
    inputs = tuple(replace(t, dtype=torch.uint8) if t.name in held else t for t in interface.inputs)
    outputs = tuple(replace(t, dtype=torch.uint8) if t.name in held else t for t in interface.outputs)
    states: tuple[State, ...] = tuple(replace(state, dtype=torch.uint8) for state in interface.states)
    return Interface(inputs, outputs, states)


@dataclass
class PartedOnnx:
    """Methods in several parts, each with a CPU's and an accelerator's model.

    Attributes:
        host: by part, the sessions on the CPU.
        accelerated: by part, the others, with their states.
    """

    host: Sequence[OnnxMethods]
    accelerated: Sequence[OnnxMethods]

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return self.host[0].chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method's parts one after the other."""
        given = dict(inputs)
        for host, accelerated in zip(self.host, self.accelerated, strict=True):
            # A part after the last layer has nothing for the CPU.
            given |= host.outputs(method, given) if method in host.sessions else {}
            outputs = accelerated.outputs(method, given)
            given |= {HIDDEN: outputs[NEXT]} if NEXT in outputs else {}
        return join_logits(outputs)


def execute(path: Path) -> PartedOnnx:
    """Load the artifact in Qualcomm's emulation, compiled again from the fixed-point models next to it.

    Raises:
        ToolError: E598, they are not there, as in a bundle; E592, the emulation is not installed.
    """
    check_beside(path)
    soc = int((path / SOC).read_text())
    contexts = []
    for folder in folders(path.parent / FIXED_POINT):
        with TemporaryDirectory() as scratch:
            models = {folder / f"{name}.onnx": Path(scratch) / f"{name}.onnx" for name in _METHODS}
            sessions = compile_contexts(models, soc)
        contexts.append(OnnxMethods(dict(zip(_METHODS, sessions, strict=True))))
    return PartedOnnx(_hosts(path), contexts)


def check_beside(path: Path) -> None:
    """Refuse to execute contexts alone.

    Raises:
        ToolError: E598, the models that they were compiled from are not next to them.
    """
    if (path.parent / FIXED_POINT).is_dir():
        return
    raise ToolError(
        "This machine cannot execute a Snapdragon's context.",
        where=str(path),
        why="Qualcomm's emulation does not load contexts with shared weights; the export executed what it compiled",
        fix="read the bundle's parity ladder (edgec inspect), or run it on the phone (edgec embed --platform android)",
        code="E598",
    )


def execute_on_cpu(path: Path) -> PartedOnnx:
    """Load the fixed-point models that the artifact was compiled from, on ONNX Runtime's CPU kernels."""
    sources = folders(path.parent / FIXED_POINT)
    return PartedOnnx(_hosts(path), [OnnxMethods(open_sessions(folder, _METHODS)) for folder in sources])


def _hosts(path: Path) -> list[OnnxMethods]:
    files = [{name: folder / f"host_{name}.onnx" for name in _METHODS} for folder in folders(path)]
    return [OnnxMethods({name: cpu_session(file) for name, file in each.items() if file.exists()}) for each in files]


def folders(path: Path) -> list[Path]:
    """The parts' folders in order."""
    return sorted(path.glob(f"{_PARTS}*"), key=lambda folder: int(folder.name.removeprefix(_PARTS)))


def layer_values(path: Path) -> str:
    """How far the fixed-point models' layers are from the graphs', in words."""
    return said(load_losses(folders(path.parent / FIXED_POINT)))


def layout(path: Path) -> ArtifactLayout:
    """Where the artifact's bytes lie; a context is opaque and counts as a delegate."""
    parts = [folder_layout(folder) for folder in folders(path)]
    total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    stored = tuple(replace(run, place=f"{WEIGHTS} of part {i}") for i, part in enumerate(parts) for run in part.stored)
    program, padding = sum(p.program_bytes for p in parts), sum(p.padding_bytes for p in parts)
    contexts = total - program - padding - sum(run.bytes for run in stored)
    return ArtifactLayout(total, program, contexts, padding, stored)
