"""Made voices and pictures: unlike noise in what tells sounds and photographs from it, and levelled."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.parity.made_inputs import MadeInputs, made_inputs
from edgec.exporter.parity.made_signals import is_picture, is_sound, signal


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(model: nn.Module, *examples: Tensor) -> MadeInputs:
    def run(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return (model(*inputs),)

    return made_inputs(model.eval(), examples, run)


def test_sounds_and_pictures_are_known_by_their_shape() -> None:
    noise = torch.randn(1, 16_000, generator=drawn(0))
    assert all(map(is_sound, (noise, noise[0], noise[None], 0.01 * noise)))
    assert not any(map(is_sound, (noise[:, :100], noise.abs(), noise.reshape(2, -1), noise.long())))
    assert is_picture(torch.zeros(1, 3, 32, 32)) and is_picture(torch.zeros(4, 1, 16, 40))
    assert not any(map(is_picture, (torch.zeros(1, 64, 32, 32), torch.zeros(1, 3, 8, 8))))


@pytest.mark.parametrize("shape", [(1, 576), (1, 16_000), (1, 3, 48, 64), (1, 1, 16, 16)])
def test_they_are_levelled_and_seeded(shape: tuple[int, ...]) -> None:
    value = signal(torch.randn(shape), drawn(3))
    assert value.shape == shape and torch.equal(value, signal(torch.randn(shape), drawn(3)))
    assert abs(float(value.mean())) < 1e-4 and abs(float(value.std()) - 1) < 1e-4
    assert not torch.equal(value, signal(torch.randn(shape), drawn(4)))


def test_a_voice_repeats_and_is_loud_at_few_frequencies() -> None:
    for seed in range(8):
        voice = signal(torch.zeros(1, 4096), drawn(seed))[0]
        power = torch.fft.rfft(voice).abs().square()
        # White noise has a tenth of its power in a tenth of its frequencies.
        assert float(power.topk(len(power) // 10).values.sum() / power.sum()) > 0.8
        delays = range(50, 210)  # of 16,000 samples: 76 to 320 Hz
        repeats = max(float((voice[:-delay] * voice[delay:]).mean()) for delay in delays)
        assert repeats > 0.4


def test_neighbours_in_a_picture_are_alike_and_its_channels_too() -> None:
    for seed in range(8):
        picture = signal(torch.zeros(1, 3, 48, 48), drawn(seed))[0]
        assert float((picture[:, :, 1:] * picture[:, :, :-1]).mean()) > 0.8
        assert float((picture.diff(dim=2).abs() > 0.5).float().mean()) > 0.002  # edges


def test_networks_with_convolutions_get_them_and_others_do_not() -> None:
    sound = 0.05 * torch.randn(1, 1, 512, generator=drawn(0))
    heard = made(nn.Conv1d(1, 4, 9), sound)
    assert "6 like voices or pictures" in heard.note and len(heard.calls) == 16
    voices = [call[0] for call in heard.calls[-6:]]
    assert all(float(voice.abs().max()) <= 1 for voice in voices)
    spreads = [float(voice.std()) for voice in voices]
    # 12 dB either way of the example's.
    assert min(spreads) > 0.01 and max(spreads) < 0.21 and max(spreads) > 3 * min(spreads)
    assert "voices" not in made(nn.Linear(512, 4), sound).note
    seen = made(nn.Conv2d(3, 4, 3), torch.rand(1, 3, 32, 32, generator=drawn(0)))
    assert "6 like voices or pictures" in seen.note
    assert all(float(call[0].min()) >= 0 and float(call[0].max()) <= 1 for call in seen.calls)


def test_levelled_examples_get_levelled_voices() -> None:
    heard = made(nn.Conv1d(1, 4, 9), torch.randn(1, 1, 4096, generator=drawn(0)))
    assert all(abs(float(call[0].std()) - 1) < 0.1 for call in heard.calls)
