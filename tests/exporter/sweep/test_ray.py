"""Sweeps on a Ray cluster of two nodes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import ToolError
from edgec.exporter.sweep.engines import RayEngine
from edgec.exporter.sweep.step import SweepStep
from edgec.exporter.sweep.sweep import sweep

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"
SPEC = """
models = ["tiny"]
recipes = ["float", "no-such.toml"]
targets = ["host", "android-cpu"]
devices = ["host"]
[export]
context = 64
[bench]
prompt-tokens = 8
new-tokens = 4
"""


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, joined."""
    ray = pytest.importorskip("ray", reason="pip install edgec[sweep]")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        made.add_node(num_cpus=1)
        ray.init(address=made.address)
        assert len(ray.nodes()) == 2
        yield ray
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.mark.slow
def test_a_sweep_on_two_nodes(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny").symlink_to(EXAMPLE)
    Path("grid.toml").write_text(SPEC)
    result = sweep("grid.toml", "out", engine="ray", workers=2)
    rows = {(row.recipe, row.target): row for row in result.rows}
    assert [rows["float", target].status for target in ("host", "android-cpu")] == ["measured"] * 2
    assert all(rows["float", target].decode_tokens_per_s for target in ("host", "android-cpu"))
    assert [rows["no-such.toml", target].status for target in ("host", "android-cpu")] == ["failed"] * 2
    assert {row.error_code for row in result.failed} == {"E175"} and (tmp_path / "out" / "pareto.svg").exists()


@pytest.mark.slow
def test_steps_end_as_data_on_two_nodes(cluster: Any) -> None:
    steps = [SweepStep("good", ("doctor",), 300.0), SweepStep("bad", ("export", "/nowhere/at/all"), 300.0)]
    ends = {done.key: done for done in RayEngine(2).run(steps)}
    assert ends["good"].error is None and ends["bad"].error is not None


def test_a_cluster_that_cannot_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="pip install edgec[sweep]")

    def unreachable(**options: Any) -> None:
        raise ConnectionError("ray cannot be reached at 10.0.0.1:6379")

    monkeypatch.setattr(ray, "init", unreachable)
    with pytest.raises(ToolError, match="E562") as caught:
        RayEngine(1)
    assert "10.0.0.1" in caught.value.why and "RAY_ADDRESS" in caught.value.fix
