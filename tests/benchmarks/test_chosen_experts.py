"""A bundle that took other experts than its graph is equal only where each was a tie and nothing else differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.coverage_parts.chosen_experts import Followed, follow, routers
from benchmarks.coverage_parts.rounded import with_chosen_experts
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.ir.attributes import attribute
from edgec.ir.experts import EXPERTS
from edgec.ir.graph_run import run_calls
from edgec.ir.program import Interface, Program, TensorType

TOKENS, WIDTH, NUMBER, CHOSEN, VOCABULARY = 40, 8, 4, 2, 16
TIE, NOISE = 1e-2, 1e-3
FOUND = ("different", "from token 3 on")


class Layer(nn.Module):
    """A router and its experts, of which two nearly tie for every token."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(0)
        self.router = nn.Parameter(torch.randn(NUMBER, WIDTH, generator=drawn))
        self.router.data[3] = self.router[2] + NOISE * torch.randn(WIDTH, generator=drawn)
        self.experts = nn.Parameter(torch.randn(NUMBER, VOCABULARY, WIDTH, generator=drawn))

    def forward(self, x: Tensor) -> Tensor:
        values, index = torch.topk(torch.softmax(nn.functional.linear(x, self.router), -1), CHOSEN)
        y: Tensor = EXPERTS(x.unsqueeze(1), index, self.experts, None)
        return (y * values.unsqueeze(-1)).sum(1).unsqueeze(0)


def program(**moved: Tensor) -> Program:
    """The layer's program; ``moved``: what is added to a parameter of it."""
    layer = Layer()
    for name, by in moved.items():
        getattr(layer, name).data.add_(by)
    graph: Any = torch.export.export(layer, (inputs(),), strict=True).module(check_guards=False)
    given = TensorType("x", torch.float32, (TOKENS, WIDTH))
    return Program(graph, Interface((given,), (TensorType("logits", torch.float32, (1, TOKENS, VOCABULARY)),)))


def inputs() -> Tensor:
    return torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def noise(size: float = NOISE, shape: tuple[int, ...] = (NUMBER, WIDTH)) -> Tensor:
    return size * torch.randn(shape, generator=torch.Generator().manual_seed(2))


def followed(**moved: Tensor) -> Followed:
    """The graph beside an artifact whose parameters are others."""

    def execute(telling: Program, calls: Sequence[ProbeCall]) -> Any:
        for name, by in moved.items():
            attribute(telling.graph, name).data.add_(by)
        ran = run_calls(telling, [call.inputs for call in calls])
        for name, by in moved.items():
            attribute(telling.graph, name).data.sub_(by)
        return ran

    with torch.no_grad():
        found = follow(program(), [ProbeCall([inputs()])], execute)
    assert found is not None
    return found


def result(found: Followed) -> tuple[str, str]:
    return with_chosen_experts(FOUND, found, found.artifact_logits.argmax(-1).tolist(), TIE)


def test_a_router_is_found_and_told() -> None:
    assert len(routers(program())) == 1
    same = followed()
    (routed,) = same.routed
    assert routed.chosen.shape == (TOKENS, CHOSEN) and routed.margins().max() == 0 and routed.noise().max() == 0
    torch.testing.assert_close(same.logits, same.artifact_logits)
    assert result(same)[0] == "different", "without another expert nothing else explains a difference"


def test_other_experts_of_scores_that_tie_are_no_difference() -> None:
    found = followed(router=noise())
    (routed,) = found.routed
    others = routed.margins() > 0
    assert 0 < int(others.sum()) < TOKENS / 2
    with torch.no_grad():
        alone = program().graph(inputs())[0]
    # The routers weigh alike, up to the noise; the graph by itself takes other experts for some tokens.
    torch.testing.assert_close(found.logits, found.artifact_logits, atol=0.1, rtol=0)
    assert (alone - found.artifact_logits).abs()[others].max() > 0.5
    assert result(found)[0] == "equal" and "choices differ" in result(found)[1]
    assert with_chosen_experts(FOUND, found, [0] * TOKENS, TIE)[0] == "different", "not what the bundle said"


@pytest.mark.parametrize(
    "moved",
    [
        pytest.param({"router": noise(0.3)}, id="a router that computes something else"),
        pytest.param(
            {"router": noise(), "experts": noise(1.0, (NUMBER, VOCABULARY, WIDTH))}, id="experts that compute otherwise"
        ),
    ],
)
def test_a_wrong_artifact_stays_different(moved: dict[str, Tensor]) -> None:
    assert result(followed(**moved))[0] == "different"


def test_another_choice_of_equal_scores_is_wrong() -> None:
    found = followed()
    (routed,) = found.routed
    wrong = type(routed)(routed.scores, routed.artifact_scores, routed.chosen.clone())
    wrong.chosen[0, 1] = (set(range(NUMBER)) - set(routed.chosen[0].tolist())).pop()
    assert wrong.margins()[0] > 0
    assert result(Followed(found.logits, found.artifact_logits, [wrong]))[0] == "different"
