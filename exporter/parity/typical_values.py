"""What a network's inputs were like in training, as far as its first batch norm tells.

    x = shift + scale * noise  ->  layers  ->  what the batch norm sees  ~  its running mean and variance

Running statistics are what training left of every input. The shift and the scale under which made inputs give the same
mean and variance, channel by channel, are those of the inputs that the network knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

_SHIFTS = (0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 2.0, 5.0, -5.0, 10.0, 50.0, 100.0, 127.5)
_SCALES = (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 64.0)
# Shift and scale hardly depend on each other behind a convolution.
_ROUNDS = 2
# Values of one channel hardly ever lie further from the running mean, and logarithms of its spread hardly further off.
TYPICAL = 1.0


@dataclass(frozen=True)
class Typical:
    """The inputs that a batch norm knows; ``distance``: how far made ones are from its statistics, in deviations."""

    shift: float
    scale: float
    layer: str
    distance: float

    @property
    def line(self) -> str:
        """In words, for the ladder."""
        near = "typical" if self.distance <= TYPICAL else "not typical: give real ones with --inputs"
        told = f"mean {self.shift:g} and spread {self.scale:g}, from the running statistics of {self.layer}"
        return f"{told} ({near}, {self.distance:.2g} deviations)"


class _SeenError(Exception):
    """Stops a run at the first batch norm, with what it sees."""

    def __init__(self, value: Tensor, norm: _BatchNorm, name: str) -> None:
        super().__init__()
        self.value, self.norm, self.name = value, norm, name


def typical_values(model: nn.Module, call: Callable[[float, float], Sequence[Tensor]]) -> Typical | None:
    """The shift and scale of the inputs that the first batch norm knows; None without one that was trained.

    Args:
        model: in evaluation mode.
        call: inputs by shift and scale.
    """

    def at(shift: float, scale: float) -> Typical | None:
        seen = _first_seen(model, call(shift, scale))
        if seen is None or not is_trained(seen.norm):
            return None
        return Typical(shift, scale, seen.name, _distance(seen.value, seen.norm))

    best = at(0.0, 1.0)
    for _ in range(_ROUNDS):
        if best is None:
            return None
        best = _nearest([at(best.shift, scale) for scale in _SCALES]) or best
        best = _nearest([at(shift, best.scale) for shift in _SHIFTS]) or best
    return best


def _nearest(found: Sequence[Typical | None]) -> Typical | None:
    return min((each for each in found if each is not None), key=lambda each: each.distance, default=None)


def _first_seen(model: nn.Module, inputs: Sequence[Tensor]) -> _SeenError | None:
    norms = [(name, each) for name, each in model.named_modules() if isinstance(each, _BatchNorm)]
    hooks = [each.register_forward_pre_hook(_stop(name)) for name, each in norms if each.running_mean is not None]
    if not hooks:
        return None
    try:
        with torch.no_grad():
            model(*inputs)
    except _SeenError as seen:
        return seen
    except Exception:  # Model code of any family fails in its own way.
        return None
    finally:
        for hook in hooks:
            hook.remove()
    return None


def _stop(name: str) -> Callable[[nn.Module, Any], None]:
    def stop(module: nn.Module, given: Any) -> None:
        assert isinstance(module, _BatchNorm)
        raise _SeenError(given[0], module, name or "its batch norm")

    return stop


def is_trained(norm: _BatchNorm) -> bool:
    """Whether a batch norm has running statistics, other than those of a new layer."""
    mean, variance = norm.running_mean, norm.running_var
    return mean is not None and variance is not None and (bool(mean.any()) or not bool((variance == 1).all()))


def _distance(value: Tensor, norm: _BatchNorm) -> float:
    """How far the channels of a value lie from running statistics."""
    rows = value.transpose(0, 1).reshape(value.shape[1], -1).double()
    return deviations(rows.mean(1), rows.var(1, correction=0), norm)


def deviations(mean: Tensor, variance: Tensor, norm: _BatchNorm) -> float:
    """How far channels' means and variances lie from running statistics: root mean square, at most 100."""
    assert norm.running_mean is not None and norm.running_var is not None
    known = norm.running_var.double() + norm.eps
    off = (mean - norm.running_mean.double()) / known.sqrt()
    wider = (variance + norm.eps).log() / 2 - known.log() / 2
    squares = (off.square() + wider.square()).nan_to_num(1e4, 1e4).clamp(max=1e4)
    return float(squares.mean().sqrt())
