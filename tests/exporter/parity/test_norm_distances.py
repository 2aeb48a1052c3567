"""Inputs unlike those of training are told by the batch norms of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.parity.norm_distances import NormDistances, norm_distances


def pictures(seed: int) -> Tensor:
    """Eight smooth pictures whose channels have their own mean."""
    drawn = torch.Generator().manual_seed(seed)
    coarse = torch.randn(8, 3, 4, 4, generator=drawn)
    smooth = nn.functional.interpolate(coarse, size=16, mode="bilinear")
    return 0.3 * smooth + torch.tensor([0.6, 0.0, -0.5]).view(3, 1, 1)


def trained() -> nn.Module:
    """A network whose batch norms have seen 400 such pictures."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    module = nn.Sequential(*layers).train()
    for seed in range(50):
        module(pictures(seed))
    return module.eval()


def told(calls: list[tuple[Tensor]]) -> NormDistances:
    """What the network's batch norms tell of calls."""
    found = norm_distances(trained(), calls)
    assert found is not None and set(found.distances) == {"1", "4"}
    return found


def test_inputs_of_training_are_typical_and_others_are_not() -> None:
    rows = [(row[None],) for row in pictures(99)]
    assert told(rows).typical and max(told(rows).distances.values()) < 0.5
    bytes_instead = told([(255 * (row + 1) / 2,) for (row,) in rows])
    swapped = told([(row.flip(1),) for (row,) in rows])
    assert not bytes_instead.typical and min(swapped.distances.values()) > 2 * max(told(rows).distances.values())
    assert "2 batch norms" in bytes_instead.line


def test_a_network_without_trained_norms_tells_nothing() -> None:
    calls = [(torch.randn(1, 3, 8, 8),)]
    assert norm_distances(nn.Conv2d(3, 4, 3), calls) is None
    assert norm_distances(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), calls) is None
    assert norm_distances(trained(), [(torch.randn(1, 5, 8, 8),)]) is None
