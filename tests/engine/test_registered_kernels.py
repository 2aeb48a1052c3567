"""The kernels as ExecuTorch runs them: loading the engine's library registers them, programs call them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.engine.compile.build import build_runner
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, RMS_NORM, ROPE, grid_group

pytestmark = pytest.mark.long

SLOTS, HEADS, KV_HEADS, WIDTH = 40, 4, 2, 64
# Both compute in float32, in another order.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def library() -> Path:
    path = build_runner().library
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return path


def emit(model: nn.Module, inputs: tuple[Tensor, ...], shapes: Any) -> bytes:
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    with torch.no_grad():
        exported = torch.export.export(model, inputs, dynamic_shapes=shapes)
    emitting = ExecutorchBackendConfig(sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass())
    result: bytes = to_edge(exported, compile_config=config).to_executorch(emitting).buffer
    return result


def load(program: bytes, folder: Path) -> Any:
    from executorch.runtime import Runtime

    path = folder / "program.pte"
    path.write_bytes(program)
    return Runtime.get().load_program(path).load_method("forward")


class Layer(nn.Module):
    """A module that calls every operator once, over its own cache."""

    def __init__(self, dtype: torch.dtype, window: int, ring: int, sink: int) -> None:
        super().__init__()
        self.layout = (window, ring, sink)
        group, width = grid_group(dtype, WIDTH), WIDTH // 2 if dtype == torch.uint8 else WIDTH
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, SLOTS, KV_HEADS, width, dtype=dtype))
            grid = torch.zeros(1, SLOTS, KV_HEADS, 2 * WIDTH // group, dtype=torch.float16)
            self.register_buffer(f"{name}_grid", None if dtype.is_floating_point else grid)
        self.weight = nn.Parameter(torch.rand(WIDTH), requires_grad=False)

    def forward(self, x: Tensor, positions: Tensor, angles: Tensor, rows: Tensor) -> Tensor:
        window, ring, sink = self.layout
        q = ROPE(RMS_NORM(x, self.weight, 1e-6), angles.cos(), angles.sin())
        k, v = (part.contiguous() for part in (q[:, :, :KV_HEADS], x[:, :, KV_HEADS:]))
        CACHE_WRITE(k, positions, self.keys, self.keys_grid, ring, sink)
        CACHE_WRITE(v, positions, self.values, self.values_grid, ring, sink)
        asked = (q.index_select(1, rows), positions.index_select(0, rows), positions)
        caches = (self.keys, self.values, self.keys_grid, self.values_grid)
        result: Tensor = CACHED_ATTENTION(*asked, *caches, 0.125, window, ring, sink, 0.0, None)
        return result


@pytest.mark.sweep(4)
@pytest.mark.parametrize("layout", [(0, 0, 0), (20, SLOTS - 2, 2)], ids=["full", "ring"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.uint8])
def test_a_program_computes_what_torch_does(
    library: Path, tmp_path: Path, dtype: torch.dtype, layout: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    layer = Layer(dtype, *layout)

    def inputs(start: int, size: int) -> tuple[Tensor, ...]:
        x, angles = torch.randn(1, size, HEADS, WIDTH), torch.randn(1, size, 8).repeat(1, 1, 2)
        return x, torch.arange(start, start + size), angles, torch.tensor([size - 1, 0])

    size, count = torch.export.Dim("S", min=2, max=16), torch.export.Dim("K", min=2, max=8)
    method = load(emit(layer, inputs(0, 8), ({1: size}, {0: size}, {1: size}, {0: count})), tmp_path)
    start = 0
    for tokens in (16, 7, 1, 1, 8, 5):
        call = inputs(start, tokens)
        wanted = layer(*call)
        assert float((method.execute(list(call))[0] - wanted).abs().max()) < TOLERANCE
        start += tokens


@pytest.mark.parametrize("start", [SLOTS - 1, -1])
def test_positions_without_a_slot_are_refused(library: Path, tmp_path: Path, start: int) -> None:
    layer = Layer(torch.float32, 0, 0, 0)
    x, angles = torch.randn(1, 2, HEADS, WIDTH), torch.randn(1, 2, 16)
    method = load(emit(layer, (x, torch.arange(2), angles, torch.tensor([0, 1])), None), tmp_path)
    with pytest.raises(RuntimeError):
        method.execute([x, torch.arange(start, start + 2), angles, torch.tensor([0, 1])])


class Standard(nn.Module):
    """A module with ExecuTorch's own cache and attention operators, causal or with a mask and explicit slots."""

    def __init__(self, dtype: torch.dtype, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, SLOTS, KV_HEADS, WIDTH, dtype=dtype))

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        llama, start = torch.ops.llama, positions[0].item()
        k, v = (x[:, :, part : part + KV_HEADS].contiguous() for part in (0, KV_HEADS))
        if self.masked:
            slots = (positions % SLOTS).unsqueeze(0)
            llama.update_cache_with_indices(k, self.keys, 0, slots)
            llama.update_cache_with_indices(v, self.values, 0, slots)
            result: Tensor = llama.custom_sdpa(x, self.keys, self.values, 0, mask, 0.0, False, 0.2)
            return result
        llama.update_cache(k, self.keys, start)
        llama.update_cache(v, self.values, start)
        made: Tensor = llama.custom_sdpa(x, self.keys, self.values, start, None, 0.0, True, 0.2)
        return made


RUN = """
import ctypes, pathlib, sys, torch
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL).edgec_register_standard_operators()
from executorch.runtime import Runtime
for folder in map(pathlib.Path, sys.argv[2:]):
    method = Runtime.get().load_program(folder / "program.pte").load_method("forward")
    results = [method.execute(list(call))[0].clone() for call in torch.load(folder / "calls.pt")]
    torch.save(results, folder / "out.pt")
"""
STANDARD = [(dtype, masked) for dtype in (torch.float32, torch.float16) for masked in (False, True)]
# Float16 rounds to 11 bits.
STANDARD_TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3}


@pytest.fixture(scope="module")
def executed(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[torch.dtype, bool], Path]:
    """The folders of STANDARD with calls and outputs, by one process that never loads ExecuTorch's operators."""
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401

    folders = {kind: tmp_path_factory.mktemp("standard") for kind in STANDARD}
    for (dtype, masked), folder in folders.items():
        torch.manual_seed(0)
        calls = [standard_inputs(dtype, start) for start in (0, 3, 6)]
        (folder / "program.pte").write_bytes(emit(Standard(dtype, masked), calls[0], None))
        torch.save(calls, folder / "calls.pt")
    subprocess.run(
        [sys.executable, "-c", RUN, str(library), *map(str, folders.values())], check=True, capture_output=True
    )
    return folders


def standard_inputs(dtype: torch.dtype, start: int) -> tuple[Tensor, ...]:
    hidden = torch.arange(SLOTS) > start + torch.arange(3)[:, None]
    return torch.randn(1, 3, HEADS, WIDTH).to(dtype), torch.arange(start, start + 3), hidden.float() * -1e9


@pytest.mark.parametrize(("dtype", "masked"), STANDARD)
def test_standard_names_compute_what_executorchs_own_do(
    executed: dict[tuple[torch.dtype, bool], Path], dtype: torch.dtype, masked: bool
) -> None:
    model, folder = Standard(dtype, masked), executed[dtype, masked]
    for call, own in zip(torch.load(folder / "calls.pt"), torch.load(folder / "out.pt"), strict=True):
        assert float((own - model(*call)).abs().max()) < STANDARD_TOLERANCE[dtype]
