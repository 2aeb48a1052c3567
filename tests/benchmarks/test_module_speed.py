"""The table of module speeds goes on where an engine refuses a network, and has coremltools' own package in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks.module_engines import Job, Refused, Subject, files, subjects, tried
from benchmarks.module_speed import measured
from benchmarks.real_modules import NETWORKS
from benchmarks.real_networks.network import Inputs, Made, Network


class Small(nn.Module):
    """A linear layer with a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x).softmax(-1)
        return result


def small() -> Made:
    """The network, and a row."""
    torch.manual_seed(0)
    return Small().eval(), (torch.randn(1, 8),)


def drawn(generator: torch.Generator) -> Inputs:
    """Another row."""
    return (torch.randn(1, 8, generator=generator),)


def largest(wanted: Sequence[Tensor], got: Sequence[Tensor]) -> float:
    """The largest difference."""
    return float((wanted[0] - got[0]).detach().abs().max())


NETWORK = Network("none", "none", small, drawn, ("of one", largest), 0.1)


@pytest.mark.long
def test_an_engine_that_refuses_has_its_words_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "small", NETWORK)
    generator = torch.Generator().manual_seed(1)
    job = Job("small", "float", [drawn(generator)], tmp_path)

    def refusing() -> Path:
        raise ValueError("no such\n operator")

    (tmp_path / "peer.onnx").write_text("not an ONNX model")
    made = {"peer": tried("peer", refusing), "other peer": tmp_path / "peer.onnx"}
    made |= {name: file for name, file in files(job) if name.startswith(("ExecuTorch", "coremltools"))}
    found = list(subjects(job, made, threads=1))
    assert [type(each) for each in found] == [Refused, Refused, Subject, Subject]
    rows = list(measured(found, NETWORK, [drawn(generator) for _ in range(3)]))
    assert [row[0] for row in rows] == ["peer", "other peer", "ExecuTorch, XNNPACK", "coremltools, float16 (simulated)"]
    assert rows[0][-1] == "ValueError: no such operator" and rows[1][-1].startswith("InvalidProtobuf")
    # Kernels of two libraries: the order of sums, in float32.
    assert int(rows[2][1].replace(",", "")) > 144 and float(rows[2][2]) > 0 and float(rows[2][-1].split()[2]) < 1e-6
    # float16 of probabilities: their last digit; an interpreter's time says nothing.
    assert rows[3][2] == "" and 0 < float(rows[3][-1].split()[2]) < 1e-3


def test_what_lies_in_the_folder_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "small", NETWORK)
    names = ("host.edgec/model.pte", "android.edgec/model.pte", "peer.pte", "peer.onnx")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"made before")
    found = dict(files(Job("small", "8bit", [], tmp_path)))
    assert [*found.values()] == [tmp_path / name for name in names]
