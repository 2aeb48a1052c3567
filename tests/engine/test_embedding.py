"""EdgecEmbedding: rows of a matrix in the program's named data, in the three formats that XNNPACK stores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.engine.compile.build import build_runner

ROWS, WIDTH, GROUP = 50, 64, 32
Table = tuple[Tensor, bytes, bytes, int]


def floats() -> Table:
    table = torch.randn(ROWS, WIDTH)
    return table, table.numpy().tobytes(), b"", WIDTH


def bytes_by_row() -> Table:
    integers, scales = torch.randint(-128, 128, (ROWS, WIDTH), dtype=torch.int8), torch.rand(ROWS)
    return integers.float() * scales[:, None], integers.numpy().tobytes(), scales.numpy().tobytes(), WIDTH


def nibbles_by_group() -> Table:
    integers = torch.randint(0, 16, (ROWS, WIDTH), dtype=torch.uint8)
    scales = torch.rand(ROWS, WIDTH // GROUP).bfloat16()
    packed = integers[:, ::2] | integers[:, 1::2] << 4
    table = ((integers.float() - 8).unflatten(-1, (-1, GROUP)) * scales.float().unsqueeze(-1)).flatten(-2)
    return table, packed.numpy().tobytes(), scales.view(torch.uint8).numpy().tobytes(), GROUP


TABLES: dict[int, Callable[[], Table]] = {32: floats, 8: bytes_by_row, 4: nibbles_by_group}


def text(bits: int, group: int, rows: int = ROWS) -> str:
    scales = "" if bits == 32 else "scales"
    return (
        f"edgec.embedding=1\nbits={bits}\nrows={rows}\nwidth={WIDTH}\ngroup={group}\nweights=weights\nscales={scales}\n"
    )


class Lookup(nn.Module):
    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table, requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.embedding(tokens, self.table)


class Delegated(nn.Module):
    def __init__(self, delegate: nn.Module) -> None:
        super().__init__()
        self.delegate = delegate

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.delegate(tokens)
        return result


def program(table: Tensor, weights: bytes, scales: bytes, blob: str) -> bytes:
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir._serialize._named_data_store import NamedDataStore
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    size = torch.export.Dim("S", min=2, max=16)
    inputs, shapes = (torch.zeros(1, 8, dtype=torch.int64),), ({1: size},)
    store = NamedDataStore()
    store.add_named_data("weights", weights)
    if scales:
        store.add_named_data("scales", scales)
    edge = to_edge(torch.export.export(Lookup(table), inputs, dynamic_shapes=shapes), compile_config=config)
    lowered = LoweredBackendModule(
        edge_program=edge.exported_program(),
        backend_id="EdgecEmbedding",
        processed_bytes=blob.encode(),
        compile_specs=[],
        named_data_store_output=store.get_named_data_store_output(),
    )
    exported = torch.export.export(Delegated(lowered), inputs, dynamic_shapes=shapes)
    result: bytes = to_edge(exported, compile_config=config).to_executorch().buffer
    return result


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    ctypes.CDLL(str(build_runner().library), mode=ctypes.RTLD_GLOBAL)


@pytest.mark.long
@pytest.mark.parametrize("bits", TABLES)
def test_rows_are_those_of_the_dequantised_matrix(bits: int, tmp_path: Path) -> None:
    from executorch.runtime import Runtime

    table, weights, scales, group = TABLES[bits]()
    path = tmp_path / "program.pte"
    path.write_bytes(program(table, weights, scales, text(bits, group)))
    method = Runtime.get().load_program(path).load_method("forward")
    for size in (7, 1, 16):
        tokens = torch.randint(0, ROWS, (1, size))
        # One product of two floats: the same on both sides.
        assert torch.equal(method.execute([tokens])[0], table[tokens])
    for unknown in (ROWS, -1):
        with pytest.raises(RuntimeError):
            method.execute([torch.tensor([[unknown]])])


@pytest.mark.long
@pytest.mark.parametrize("blob", ["", text(3, WIDTH), text(4, 48), text(8, GROUP), text(8, WIDTH, ROWS + 1)])
def test_a_text_that_does_not_fit_its_data_is_refused(blob: str, tmp_path: Path) -> None:
    from executorch.runtime import Runtime

    table, weights, scales, _ = bytes_by_row()
    path = tmp_path / "program.pte"
    path.write_bytes(program(table, weights, scales, blob))
    with pytest.raises(RuntimeError):
        Runtime.get().load_program(path).load_method("forward")
