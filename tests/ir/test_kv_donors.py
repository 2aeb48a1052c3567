"""Boundaries and donors, from numbers alone."""

from __future__ import annotations

import pytest

from edgec.errors import InputError
from edgec.ir.kv_donors import donors, kept_layers, shared_spec
from edgec.ir.spec import LayerSpec, ModelSpec


@pytest.mark.parametrize(
    ("boundary", "layers", "kept"),
    [(5 / 8, 8, 5), (5 / 8, 28, 18), (5 / 8, 30, 19), (5 / 8, 4, 3), (0.5, 4, 2), (1, 2, 1), (27, 28, 27)],
)
def test_a_boundary_is_a_count_or_a_share(boundary: float, layers: int, kept: int) -> None:
    assert kept_layers(boundary, layers) == kept


@pytest.mark.parametrize("boundary", [0, 8, 9, -1, 0.0, 1.0, 0.01, 1.5, True])
def test_a_boundary_leaves_layers_on_both_sides(boundary: float) -> None:
    with pytest.raises(InputError) as refused:
        kept_layers(boundary, 8)
    assert refused.value.code == "E186"


def test_the_donor_is_the_last_layer_of_the_same_kind() -> None:
    assert donors(dict(enumerate("abababab")), 5) == {5: 3, 6: 4, 7: 3}


def test_a_kind_without_a_donor_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        donors(dict(enumerate("aaab")), 3)
    assert refused.value.code == "E185" and "layer 3" in refused.value.where


def _spec(windows: list[int | None], native: dict[int, int]) -> ModelSpec:
    layers = tuple(LayerSpec(i, 4, 2, 16, window, native.get(i)) for i, window in enumerate(windows))
    return ModelSpec("test", 100, 64, 128, layers, tied=True)


def test_a_spec_after_sharing_counts_fewer_values() -> None:
    spec = _spec([None] * 8, {})
    shared = shared_spec(spec)
    assert [layer.kv_donor for layer in shared.layers] == [None] * 5 + [4, 4, 4]
    assert shared.kv_values_per_token() == spec.kv_values_per_token() * 5 // 8


def test_a_donor_that_reads_itself_from_another_passes_it_on() -> None:
    shared = shared_spec(_spec([8, None] * 3, {3: 1, 4: 0, 5: 1}), 4)
    assert [layer.kv_donor for layer in shared.layers] == [None, None, None, 1, 2, 1]


def test_an_open_boundary_is_asked_for() -> None:
    with pytest.raises(InputError) as refused:
        kept_layers("auto", 8)
    assert refused.value.code == "E510"
