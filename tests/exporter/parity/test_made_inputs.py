"""Made inputs: seeded, several kinds, typical where a batch norm says what training saw, shifted where none does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.parity.made_inputs import MadeInputs, made_inputs
from edgec.exporter.parity.typical_values import typical_values


def made(model: nn.Module, *examples: Tensor) -> MadeInputs:
    def run(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (model(*inputs),)

    return made_inputs(model.eval(), examples, run)


def trained(shift: float, scale: float) -> nn.Module:
    """A convolution with a batch norm whose running statistics are those of noise around ``shift``."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16, momentum=0.5), nn.ReLU())
    for _ in range(20):
        model(shift + scale * torch.randn(4, 3, 16, 16))
    return model.eval()


@pytest.mark.parametrize(("shift", "scale"), [(0.5, 0.25), (100.0, 64.0), (0.0, 1.0)])
def test_a_batch_norm_tells_what_training_saw(shift: float, scale: float) -> None:
    torch.manual_seed(1)
    example = torch.randn(1, 3, 16, 16)
    found = made(trained(shift, scale), example)
    drawn = torch.cat([call[0] for call in found.calls[1:]])
    # Statistics of 15 images of 768 values: within a tenth of their spread.
    assert abs(float(drawn.mean()) - shift) < 0.15 * scale and abs(float(drawn.std()) / scale - 1) < 0.15
    assert "running statistics of 1" in found.note and "typical" in found.note and "not typical" not in found.note
    assert [each.name for each in found.stress] == ["made inputs times 4"]


def test_statistics_of_a_new_layer_say_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    assert typical_values(model, lambda shift, scale: [shift + scale * torch.randn(1, 3, 8, 8)]) is None


def test_without_one_there_are_sixteen_of_several_kinds_and_shifted_ones() -> None:
    example = torch.rand(1, 1, 64, generator=torch.Generator().manual_seed(0))
    found, again = made(nn.GroupNorm(1, 1), example), made(nn.GroupNorm(1, 1), example)
    assert len(found.calls) == 16 and found.calls[0][0] is example
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found.calls, again.calls, strict=True))
    low, high = float(example.min()), float(example.max())
    assert all(low <= float(call[0].min()) and float(call[0].max()) <= high for call in found.calls)
    neighbours = [float((call[0].diff() == 0).float().mean()) for call in found.calls]
    assert sum(share > 0.8 for share in neighbours) == 5  # smooth ones keep a value over eight places
    shifts = [float(each.inputs[0].mean() - example.mean()) / float(example.std()) for each in found.stress[1:]]
    assert shifts == pytest.approx([5, 20, 100], rel=1e-4)
    assert [each.moderate for each in found.stress] == [True, True, False, False]


class Picks(nn.Module):
    def forward(self, ids: Tensor, mask: Tensor, state: Tensor) -> Tensor:
        return (ids * mask).double().log() + state.sum()


def test_tokens_change_places_and_masks_and_constants_stay() -> None:
    ids, mask, state = torch.arange(1, 9)[None], torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1]]), torch.zeros(4)
    found = made(Picks(), ids, mask, state)
    assert len(found.calls) > 10
    for given, kept, same in found.calls:
        assert sorted(given.flatten().tolist()) == list(range(1, 9)) and kept is mask and same is state
    assert found.stress == ()


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - 2.9).sqrt()


def test_inputs_that_the_model_gives_nan_for_are_left_out() -> None:
    found = made(Root(), torch.linspace(3, 4, 16)[None])
    assert all(bool((call[0] >= 2.9).all()) for call in found.calls)
    assert all(bool((each.inputs[0] >= 2.9).all()) for each in found.stress)


def test_an_example_alone_is_said_to_be_alone() -> None:
    found = made(nn.ReLU(), torch.zeros(1, 4))
    assert len(found.calls) == 1 and found.note.startswith("judged on the example inputs alone")
