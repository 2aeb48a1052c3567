from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.passes.compress.rounding.kmeans import Clusters, Histogram, bins_for, cluster


def _clustered(values: Tensor, entries: int, importance: Tensor | None = None) -> tuple[Clusters, Tensor]:
    """Clusters of each row, and the values they put in place of the given ones."""
    low, high = torch.aminmax(values, dim=1)
    histogram = Histogram.empty(low, high, bins_for(entries))
    histogram.add(values, importance)
    clusters = cluster(histogram, entries)
    index = clusters.of_bins(bins_for(entries)).index_select(0, histogram.bins_of(values).view(-1)).view(values.shape)
    return clusters, clusters.table.gather(1, index.long())


def _exact_error(row: Tensor, entries: int) -> float:
    """The least squared error of any ``entries`` values, by coremltools' exact k-means in one dimension."""
    from coremltools._deps import _kmeans1d

    values, counts = np.unique(row.numpy(), return_counts=True)
    optimum = _kmeans1d.cluster(values, min(entries, len(values)), weights=counts)
    centres = np.array(optimum.centroids)[np.array(optimum.clusters)]
    return float((((centres - values) ** 2) * counts).sum())


def _values(kind: str) -> Tensor:
    torch.manual_seed(0)
    made = {
        "normal": torch.randn(3, 2048),
        "laplace": torch.distributions.Laplace(0.0, 1.0).sample((3, 2048)),
        "heavy": torch.distributions.StudentT(3.0).sample((3, 2048)),
        "two heaps": torch.cat([torch.randn(3, 1024) * 0.01 - 1, torch.randn(3, 1024) * 0.01 + 1], 1),
    }
    return made[kind].half().float()


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", ["normal", "laplace", "heavy", "two heaps"])
def test_as_good_as_the_exact_optimum(kind: str, bits: int) -> None:
    values = _values(kind)
    _, centres = _clustered(values, 1 << bits)
    errors = (centres - values).square().sum(1)
    exact = torch.tensor([_exact_error(row, 1 << bits) for row in values])
    # few values a bin, and no search for the best of all boundaries: 1 % on average, 3 % for a single group
    assert bool((errors <= exact * 1.03 + 1e-9).all()) and errors.sum() <= exact.sum() * 1.01


def test_fewer_distinct_values_than_entries_are_kept_exactly() -> None:
    values = torch.tensor([[0.0, 1.0, 3.0]]).repeat(2, 50)
    _, centres = _clustered(values, 16)
    assert torch.allclose(centres.float(), values, atol=1e-6)


def test_equal_values_are_one_entry() -> None:
    _, centres = _clustered(torch.full((2, 64), 0.25), 4)
    assert torch.allclose(centres, torch.tensor(0.25, dtype=torch.float64))


def test_important_values_are_met_more_closely() -> None:
    torch.manual_seed(0)
    values = torch.randn(2, 4096)
    importance = torch.where(values > 0.5, 10.0, 0.1)
    plain, weighted = (_clustered(values, 8, weights)[1] for weights in (None, importance))
    error = [((centres - values).square() * importance).sum() for centres in (plain, weighted)]
    assert error[1] < 0.5 * error[0]


def test_groups_do_not_disturb_each_other() -> None:
    torch.manual_seed(0)
    values = torch.cat([torch.randn(1, 1024) * 1e-3, torch.randn(1, 1024) * 1e3])
    together, apart = _clustered(values, 16)[0], [_clustered(row[None], 16)[0] for row in values]
    assert torch.equal(together.table, torch.cat([each.table for each in apart]))


def test_tables_ascend() -> None:
    clusters, _ = _clustered(_values("heavy"), 64)
    assert bool((clusters.table.diff(dim=1) >= 0).all())
