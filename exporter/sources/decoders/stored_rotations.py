"""Hold the rotary frequencies of a model for one length of texts.

    largest position of the call -> short or long frequencies -> angles        (LongRoPE, dynamic NTK)
        ==>
    frequencies of a text of that length -> angles

transformers' rotary modules all keep their kind in ``rope_type`` and their frequencies in ``inv_freq``, or in
``{layer kind}_inv_freq`` where layers differ; ``dynamic_rope_update`` renews the latter before each call by the former.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from edgec.exporter.sources.decoders.rotation_limits import DYNAMIC, LONG, rotations_change

HELD = "held"
"""A kind that transformers does not know, so that nothing renews the frequencies."""


@dataclass(frozen=True)
class _Rotation:
    """The frequencies of all layers or, where they differ, of one kind of them."""

    module: Any
    kind: str
    layers: str | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        every: Mapping[str, Any] = self.module.config.rope_parameters
        given: Mapping[str, Any] = every if self.layers is None else every[self.layers]
        return given


def hold_rotations(model: nn.Module, tokens: int | None, *, others: bool = True) -> None:
    """Give a model's rotary modules, in place, the frequencies that they have for texts of one length.

    Args:
        model: as transformers builds it.
        tokens: in the longest text; None: no longer than the first frequencies serve.
        others: the frequencies of longer texts may hold in shorter ones too.

    Raises:
        InputError: E742, no frequencies are known to be those of such a text.
    """
    for module in model.modules():
        for rotation in list(_rotations(module)):
            if rotation.kind == LONG:
                _hold_long(rotation, tokens or 0, others)
            elif DYNAMIC in rotation.kind:
                _hold_dynamic(rotation, tokens or 0)


def _rotations(module: Any) -> Iterator[_Rotation]:
    kinds = getattr(module, "rope_type", None)
    if isinstance(kinds, str):
        yield _Rotation(module, kinds)
    elif isinstance(kinds, Mapping):
        yield from (_Rotation(module, kind, layers) for layers, kind in kinds.items())


def _hold_long(rotation: _Rotation, tokens: int, others: bool) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    module, first = rotation.module, int(rotation.parameters["original_max_position_embeddings"])
    beyond = tokens > first
    scaled = "short_mscale" in rotation.parameters
    if beyond and (scaled or not others):
        raise rotations_change(type(module).__name__, first, tokens)
    if scaled:
        _hold_scale(module, float(rotation.parameters["short_mscale"]))
    if beyond:
        layers = {} if rotation.layers is None else {"layer_type": rotation.layers}
        given, _ = ROPE_INIT_FUNCTIONS[LONG](module.config, _frequencies(rotation).device, seq_len=first + 1, **layers)
        _put(rotation, given)
    _mark(rotation)


def _hold_scale(module: Any, scale: float) -> None:
    """Scale sines and cosines by a number that Phi-3.5-MoE's module chooses by length, unless its kind is default."""
    module.config = copy(module.config)
    module.config.rope_parameters = {**module.config.rope_parameters, "rope_type": "default"}
    module.rope_init_fn = lambda *_, **__: (module.inv_freq, scale)


def _hold_dynamic(rotation: _Rotation, tokens: int) -> None:
    longest = int(rotation.module.config.max_position_embeddings)
    if tokens > longest:
        raise rotations_change(type(rotation.module).__name__, longest, tokens)
    _mark(rotation)


def _name(rotation: _Rotation) -> str:
    return "inv_freq" if rotation.layers is None else f"{rotation.layers}_inv_freq"


def _frequencies(rotation: _Rotation) -> Tensor:
    held: Tensor = getattr(rotation.module, _name(rotation))
    return held


def _put(rotation: _Rotation, frequencies: Tensor) -> None:
    rotation.module.register_buffer(_name(rotation), frequencies.to(_frequencies(rotation).dtype), persistent=False)


def _mark(rotation: _Rotation) -> None:
    if rotation.layers is None:
        rotation.module.rope_type = HELD
    else:
        rotation.module.rope_type = {**rotation.module.rope_type, rotation.layers: HELD}
