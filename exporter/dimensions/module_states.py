"""What a decoder's recurrences remember, found by running its model code once over the meta device, without memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from edgec.devices.prediction.parameters import StateSize
from edgec.exporter.capture.attention import masks_left_out
from edgec.exporter.capture.recurrences import call_recurrences, places_shifted
from edgec.ir.recurrence import CAUSAL_CONV, RECURRENCES
from edgec.passes.kv.recurrent_states import held_values

# More than one, as model code takes a single token for a step of decoding.
_TOKENS = 2


Shapes = list[tuple[int, ...]]


def module_states(model: Any) -> tuple[StateSize, ...] | None:
    """The states of a model on the meta device, in the order of its calls; None where its code does not run there."""
    calls = recurrences_called(model)
    return None if calls is None else tuple(StateSize(*held_values(operator, shapes)) for operator, shapes in calls)


def recurrences_called(model: Any) -> tuple[tuple[Any, Shapes], ...] | None:
    """The recurrences that a model on the meta device calls, each with its arguments' shapes; None as above.

    Model code looks at values where it makes masks from positions, and at few others: given a mask, most of it runs
    over plain tensors, in a third of the time (SmolLM2-135M: 0.32 of 1.36 CPU s). The rest is run over fake ones, at
    whose values it does not look.
    """
    from torch._subclasses import FakeTensorMode

    recorded = _Recorded()
    try:
        _call(model, recorded, attention_mask=torch.ones(1, _TOKENS, dtype=torch.long, device="meta"))
    except Exception:  # Model code of any family fails in its own way where values are needed.
        recorded = _Recorded()
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                _call(model, recorded)
        except Exception:
            return () if not recorded.calls and _attends_everywhere(model) else None
    return recorded.calls


def _call(model: Any, recorded: _Recorded, **inputs: Tensor) -> None:
    with torch.device("meta"), torch.no_grad(), masks_left_out(model), call_recurrences(model), recorded:
        model(input_ids=torch.zeros(1, _TOKENS, dtype=torch.long), use_cache=False, **inputs)


def _attends_everywhere(model: Any) -> bool:
    """Whether a model's config names no layers but those of attention."""
    kinds = getattr(model.config, "layer_types", None) or ()
    return all(kind.endswith("attention") and kind != "linear_attention" for kind in kinds)


class _Recorded(TorchDispatchMode):
    """Notes the shapes with which recurrences, and convolutions over the sequence, are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: tuple[tuple[Any, Shapes], ...] = ()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in RECURRENCES:
            shapes = [tuple(arg.shape) if isinstance(arg, Tensor) else () for arg in args]
            self.calls += ((func, shapes),)
        elif func is torch.ops.aten.convolution.default and _over_the_sequence(*args):
            self.calls += (_filtered(args[1].shape[0], args[1].shape[2]),)
        elif func is torch.ops.aten.constant_pad_nd.default and (places := places_shifted(*args)):
            self.calls += (_filtered(args[0].shape[2], places + 1),)
        return func(*args, **(kwargs or {}))


def _filtered(channels: int, taps: int) -> tuple[Any, Shapes]:
    """A convolution over the sequence, as the recurrence that it is."""
    return CAUSAL_CONV, [(1, _TOKENS, channels), (channels, taps), ()]


def _over_the_sequence(x: Tensor, weight: Tensor, *options: Any) -> bool:
    """Whether a convolution has one filter for each channel, and is padded in front by all its taps but one."""
    _, _, padding, *_, groups = options
    return weight.dim() == 3 and groups == weight.shape[0] and list(padding) == [weight.shape[2] - 1]
