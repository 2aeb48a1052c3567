"""The functions of docs/modules.md that turn outputs into results: as greedy NMS and CTC have it, and on targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgec
from tests.test_readme import ROOT, blocks

PAGE = (ROOT / "docs" / "modules.md").read_text()
TARGETS: dict[str, dict[str, Any]] = {
    "host": {"target": "host"},
    "android-cpu": {"target": "android-cpu"},
    "onnx": {"target": "host", "format": "onnx"},
    "mlpackage": {"target": "iphone", "format": "mlpackage"},
    "aimodel": {"target": "iphone", "format": "aimodel"},
}


def described(name: str) -> Callable[..., Any]:
    """A function of the page."""
    (source,) = [block for block in blocks("python", PAGE) if "def best_boxes" in block]
    known: dict[str, Any] = {"torch": torch}
    exec(source, known)
    function: Callable[..., Any] = known[name]
    return function


class Boxes(nn.Module):
    """A score and a box for each of forty places, and the best eight."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.boxes, self.best = nn.Linear(16, 1), nn.Linear(16, 4), described("best_boxes")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        corner, size = self.boxes(x).sigmoid().chunk(2, -1)
        scores, boxes, shown = self.best(self.scores(x)[:, 0], torch.cat([corner, corner + size], -1), count=8)
        return scores, boxes, shown


class Text(nn.Module):
    """Scores of five symbols at each of thirty steps, read greedily."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.read = nn.Linear(8, 5), described("read_greedily")

    def forward(self, x: Tensor) -> Tensor:
        symbols: Tensor = self.read(self.scores(x))
        return symbols


def seen(module: Callable[[], nn.Module], *shape: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(3)
    return module().eval(), (torch.randn(*shape),)


def boxes() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Forty places."""
    return seen(Boxes, 40, 16)


def text() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Thirty steps."""
    return seen(Text, 30, 8)


def test_shown_boxes_are_those_of_greedy_suppression() -> None:
    drawn = torch.Generator().manual_seed(0)
    corners = torch.rand(40, 2, generator=drawn)
    found = torch.cat([corners, corners + 0.1 + 0.4 * torch.rand(40, 2, generator=drawn)], 1)
    scores = torch.rand(40, generator=drawn)
    best, kept, shown = described("best_boxes")(scores, found, overlap=0.2)
    assert torch.equal(best, scores.sort(descending=True).values[:16])
    wanted: list[int] = []
    for place, box in enumerate(kept):
        if all(shares(box, kept[other]) <= 0.2 for other in wanted):
            wanted.append(place)
    assert shown.nonzero().flatten().tolist() == wanted and 1 < len(wanted) < 16


def shares(one: Tensor, other: Tensor) -> float:
    """What two boxes share, of what they cover together."""
    sides = [float(torch.minimum(one[at + 2], other[at + 2]) - torch.maximum(one[at], other[at])) for at in (0, 1)]
    both = max(sides[0], 0.0) * max(sides[1], 0.0)
    areas = [float((each[2] - each[0]) * (each[3] - each[1])) for each in (one, other)]
    return both / (sum(areas) - both)


def test_a_text_is_read_without_blanks_and_repeats() -> None:
    symbols = torch.tensor([1, 1, 0, 1, 2, 2, 2, 0, 0, 3])
    read = described("read_greedily")(nn.functional.one_hot(symbols, 4).float())
    assert read[read != 0].tolist() == [1, 1, 2, 3]


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["boxes", "text"])
def test_they_are_part_of_an_artifact(name: str, target: str, tmp_path: Path) -> None:
    bundle = edgec.export(f"{__name__}:{name}", out=tmp_path / "x.edgec", recipe="float", **TARGETS[target])
    module, (x,) = globals()[name]()
    with torch.no_grad():
        value = module(x)
    wanted = [value] if isinstance(value, Tensor) else [*value]
    for got, own in zip(edgec.load(bundle).run(x=x.numpy()).values(), wanted, strict=True):
        assert float((torch.as_tensor(got).double() - own).abs().max()) <= 0.01
