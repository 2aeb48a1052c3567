"""An artifact whose roundings fell otherwise is right where its graph, given them, computes the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.parity.own_roundings import judged
from edgec.exporter.parity.rounded_activations import Followed
from edgec.ir.graph_run import run_calls
from tests.exporter.parity.test_rounded_activations import NOISE, VOCABULARY, followed, inputs, noise, program


def missed(found: Followed, executed: Tensor) -> Rung:
    """The rung of the artifact beside its graph, which no second execution excuses."""
    with torch.no_grad():
        (alone,) = run_calls(program(), [[inputs()]])
    before = Stage("graph", alone[0][0] if alone[0].dim() == 3 else alone[0])
    return lowering_rung(before, Stage("artifact", executed), {"kl_mean": 0.0}, rounded=True)


def again(found: Followed, executed: Tensor | None = None) -> Rung:
    own = found.artifact_logits if executed is None else executed
    rung = missed(found, own)
    assert not rung.passed
    return judged(rung, found, own)


@pytest.mark.long
def test_roundings_that_fell_otherwise_pass() -> None:
    rung = again(followed(first=noise(NOISE)))
    assert rung.passed and rung.kl_mean is not None and rung.kl_mean < ladder.FLOOR
    assert "with the artifact's own roundings, KL" in rung.note


@pytest.mark.long
@pytest.mark.parametrize(
    "moved",
    [
        pytest.param({"first": noise(1e-2)}, id="a matrix of other values"),
        pytest.param({"first": noise(3e-4)}, id="a little otherwise, in every row"),
        pytest.param({"first": noise(NOISE), "second": noise(0.3, VOCABULARY)}, id="a last matrix of other values"),
    ],
)
def test_a_wrong_artifact_stays_refused(moved: dict[str, Tensor]) -> None:
    assert not again(followed(**moved)).passed


@pytest.mark.long
def test_another_artifact_that_is_right_excuses_nothing() -> None:
    found = followed(first=noise(NOISE))
    rung = again(found, found.artifact_logits + 1e-2)
    assert not rung.passed and "lowered again it computes other numbers" in rung.note
