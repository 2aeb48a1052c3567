"""Spectra written in real numbers: the same values as torch's own, and a typed refusal of what is not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.ir.spectra import SPECTRUM

# Of the largest value; torch's own transform differs from float64 by as much.
TOLERANCE = 2e-6
HANN = torch.hann_window(100)


def stft(x: Tensor, size: int = 128, hop: int | None = 40, **how: Any) -> Tensor:
    return torch.stft(x, size, hop, **{"window": HANN, "win_length": 100, "return_complex": True, **how})


WRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "lengths": lambda x: stft(x).abs(),
    "power": lambda x: stft(x).abs().pow(2),
    "product of lengths": lambda x: (z := stft(x).abs()) * z,
    "lengths and power": lambda x: stft(x).abs() + stft(x).abs().square(),
    "parts": lambda x: stft(x).real.square() + stft(x).imag,
    "numbers side by side": lambda x: torch.view_as_real(stft(x)),
    "as real numbers at once": lambda x: stft(x, return_complex=False),
    "indexed and scaled": lambda x: torch.view_as_real(3 * -stft(x)[:, 1:, :-1].transpose(1, 2) / 2),
    "without a window, both sides": lambda x: stft(x, hop=None, window=None, win_length=None, onesided=False).abs(),
    "not centred, of one length": lambda x: stft(x, center=False, normalized=True).abs(),
    "window made in forward": lambda x: stft(x, window=torch.hann_window(100) ** 0.5).abs(),
    "one sound": lambda x: stft(x[0]).abs(),
    "frames": lambda x: torch.fft.rfft(x.unfold(-1, 100, 50) * HANN).abs(),
    "frames filled with zeros": lambda x: torch.view_as_real(torch.fft.rfft(x.unfold(-1, 100, 50), 128, norm="ortho")),
    "frames cut": lambda x: torch.view_as_real(torch.fft.rfft(x.unfold(-1, 100, 50), 64, norm="forward")),
}
TURNS = torch.polar(torch.ones(65, 16), torch.linspace(0, 6, 65 * 16).reshape(65, 16))


def side_by_side(x: Tensor) -> Tensor:
    """As nnAudio's and PESTO's transforms by convolution make complex numbers."""
    return torch.view_as_complex(x.reshape(2, 30, 10, 2).contiguous())


WRITTEN |= {
    "numbers that were side by side": lambda x: side_by_side(x).permute(0, 2, 1).abs(),
    "of two parts": lambda x: torch.complex(x, x.flip(-1)).abs(),
    "masked": lambda x: torch.view_as_real(stft(x).abs().sigmoid() * stft(x)),
    "product of spectra": lambda x: torch.view_as_real(stft(x) * stft(x.flip(-1))),
    "sum and difference of spectra": lambda x: ((z := stft(x)) + (y := stft(x.flip(-1)))).abs() + (z - y).abs(),
    "turned by a constant": lambda x: (stft(x) * TURNS).real,
}
REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "angle": lambda x: stft(x).angle(),
    "mul": lambda x: (stft(x) * 1j).abs(),
    "pow": lambda x: stft(x).pow(2).abs(),
    "exp": lambda x: side_by_side(x).exp().abs(),
    "polar": lambda x: torch.polar(x.abs(), x).real,
    "fft_fft": lambda x: torch.fft.fft(x).real,
    "fft_rfft": lambda x: torch.fft.rfft(x, dim=0).abs(),
}


class Computes(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def sounds() -> Tensor:
    return torch.randn(2, 600, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_spectrum_has_the_values_of_torchs_own(name: str) -> None:
    module, x = Computes(WRITTEN[name]), sounds()
    program = capture_module(module, (x,))
    wanted = module(x)
    (got,) = program.graph(x)
    torch.testing.assert_close(got, wanted, atol=TOLERANCE * float(wanted.abs().max()), rtol=0)
    values = [node.meta["val"] for node in program.graph.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
    assert values and not any(value.is_complex() for value in values)
    assert all(isinstance(size, int) for value in values for size in value.shape)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_written_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InputError) as error:
        capture_module(Computes(REFUSED[name]), (sounds(),))
    assert error.value.code == "E945" and name in error.value.why


def test_one_table_serves_equal_transforms() -> None:
    program = capture_module(Computes(WRITTEN["lengths and power"]), (sounds(),))
    tables = {str(n.target) for n in program.graph.graph.nodes if str(n.target).startswith(SPECTRUM)}
    assert len(tables) == 1


def test_no_root_is_drawn_of_what_is_squared() -> None:
    program = capture_module(Computes(WRITTEN["power"]), (sounds(),))
    assert not [n for n in program.graph.graph.nodes if n.target is torch.ops.aten.sqrt.default]
