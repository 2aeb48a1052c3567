"""Quality at further positions: the mean's error falls, and an artifact counts where it was executed."""

from __future__ import annotations

import pytest
import torch

from edgec.exporter.parity.further import FurtherFigures, further_plan, most_positions
from edgec.exporter.parity.ladder import Stage, quality_rung
from edgec.exporter.parity.metrics import difference, kl_rows
from edgec.exporter.parity.quality import joined_kl, with_further
from edgec.ir.call_plan import compared_positions


def drawn(positions: int, seed: int, like: torch.Tensor | None = None, noise: float = 1.0) -> torch.Tensor:
    own = torch.randn(positions, 50, generator=torch.Generator().manual_seed(seed))
    return own if like is None else like + noise * own


def test_the_error_of_a_mean_falls_with_the_root_of_the_positions() -> None:
    few, many = (difference(drawn(n, 0), drawn(n, 1, drawn(n, 0), 0.3), 0.25) for n in (100, 1600))
    # The standard deviation of KL is estimated from 100 rows to a tenth.
    assert few.kl_error / many.kl_error == pytest.approx(4, rel=0.3)
    # 19 of 20 means of other noise lie within two standard errors.
    means = [difference(drawn(100, 0), drawn(100, s, drawn(100, 0), 0.3), 0.25).kl_mean for s in range(2, 42)]
    assert sum(abs(mean - many.kl_mean) <= few.kl_error for mean in means) >= 36


def test_an_artifact_has_its_graphs_divergence_and_what_it_has_more() -> None:
    reference, more = drawn(40, 0), drawn(400, 5)
    graph, graph_more = drawn(40, 1, reference, 0.3), drawn(400, 6, more, 0.3)
    artifact = graph + 0.2 * drawn(40, 2)
    kl, error = joined_kl(reference, graph, artifact, kl_rows(more, graph_more).tolist())
    extra = float((kl_rows(reference, artifact) - kl_rows(reference, graph)).mean())
    everywhere = torch.cat([kl_rows(reference, graph), kl_rows(more, graph_more)]).mean()
    assert kl == pytest.approx(float(everywhere) + extra) and 0 < error < difference(reference, graph, 0).kl_error


def test_a_rung_is_judged_at_all_positions() -> None:
    reference, more = drawn(40, 0), drawn(400, 5)
    stages = Stage("float", reference), Stage("graph", reference), Stage("artifact", reference)
    rung = quality_rung(stages[0], stages[2], {"kl_mean": 0.02}, gated=True)
    assert rung.passed and rung.positions == 40
    told = with_further(rung, *stages, FurtherFigures.of(more, drawn(400, 6, more, 0.5)))
    assert not told.passed and told.positions == 440 and told.kl_mean is not None and told.kl_mean > 0.05
    assert told.kl_error is not None and told.kl_error < 0.2 * told.kl_mean
    assert "executed at 40 positions" in told.note


def test_further_positions_are_bounded_and_each_has_logits() -> None:
    assert compared_positions(further_plan(300, 128)) == list(range(300)) and further_plan(0, 128) == ()
    assert most_positions(49_152, 2048) == 512 and most_positions(49_152, 64) == 64
    assert most_positions(1 << 20, 2048) == 64
