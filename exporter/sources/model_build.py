"""Build transformers models from configs: on ``meta`` for their shapes, or with weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgec.errors import EdgecError, InputError
from edgec.exporter.sources.hf_config import bad_config
from edgec.exporter.sources.weights.names import NamedShapes
from edgec.exporter.sources.weights.streamed import Weights

# Families that choose among their own attention classes; capture recognises what these write out.
_INSTEAD = {"edgec": "sdpa", "sdpa": "eager"}


class PositionalModel(nn.Module):
    """A transformers model that takes tensors in a fixed order and returns only tensors.

    Args:
        model: any transformers model.
        names: the argument for each positional input.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The model's output tensors; a single one without a tuple."""
        output = self.model(**dict(zip(self.names, inputs, strict=True)))
        tensors = tuple(value for value in output.to_tuple() if isinstance(value, torch.Tensor))
        return tensors[0] if len(tensors) == 1 else tensors


def build(
    maker: Any,
    config: Any,
    *,
    device: str | None,
    attn_implementation: str | None,
    dtype: torch.dtype = torch.float32,
    trust_remote_code: bool = False,
) -> Any:
    """Build a model whose parameters have their shapes but arbitrary values.

    Args:
        maker: an Auto class or a model class of transformers.
        config: the transformers config.
        device: ``meta``, ``cpu``, or None to follow the caller's own mode (FakeTensorMode).
        attn_implementation: name in transformers' attention registry; None lets transformers choose.
        dtype: of the parameters.
        trust_remote_code: run code that comes with the model.

    Raises:
        InputError: E111, the config does not describe a model that can be built.
    """
    # Experts follow the name of the attention; classes without experts ignore it.
    options: dict[str, Any] = {"experts_implementation": "edgec"} if attn_implementation == "edgec" else {}
    if trust_remote_code:
        options["trust_remote_code"] = True
    try:
        return _make(maker, config, device, attn_implementation=attn_implementation, dtype=dtype, **options)
    except EdgecError:
        raise
    except Exception as error:  # Model code of any family fails in its own way on a senseless config.
        foreign = isinstance(error, KeyError | ValueError | TypeError)
        if not foreign or attn_implementation not in _INSTEAD:
            raise bad_config(Path(config.name_or_path or "config.json"), error) from error
        instead = _INSTEAD[attn_implementation]
    return build(
        maker, config, device=device, attn_implementation=instead, dtype=dtype, trust_remote_code=trust_remote_code
    )


def _make(maker: Any, config: Any, device: str | None, **options: Any) -> Any:
    from transformers.initialization import no_init_weights

    # Auto classes dispatch to the model class; only that takes the options.
    make = getattr(maker, "from_config", None) or maker._from_config
    with torch.device(device) if device else nullcontext(), no_init_weights():
        return make(config, **options).eval()


def expected_shapes(model: Any) -> NamedShapes:
    """The shape of each parameter and stored buffer; tied parameters count once, under their owner's name."""
    twins = tied_parameters(model)
    return {name: tuple(value.shape) for name, value in model.state_dict().items() if name not in twins}


def tied_parameters(model: Any) -> dict[str, str]:
    """Tied parameters: name -> the parameter whose tensor it shares."""
    return dict(getattr(model, "all_tied_weights_keys", None) or {})


def untie(model: Any, names: Sequence[str]) -> Any:
    """Give parameters that the model's class ties separate tensors; returns the model."""
    for name in names:
        module, _, leaf = name.rpartition(".")
        shared = model.get_parameter_or_buffer(name)
        own = torch.empty(tuple(shared.shape), dtype=shared.dtype, device=shared.device)
        one = nn.Parameter(own, requires_grad=False) if isinstance(shared, nn.Parameter) else own
        setattr(model.get_submodule(module), leaf, one)
        model.all_tied_weights_keys.pop(name, None)
    return model


def tie(model: Any) -> None:
    """Let tied parameters share one tensor again, but for those that were untied."""
    model.tie_weights(recompute_mapping=False)


def put_weights(model: Any, weights: Weights, *, as_stored: bool = False) -> None:
    """Put weights into a model, sharing memory where the dtype agrees.

    Args:
        model: a transformers model on the CPU.
        weights: under the model's parameter names.
        as_stored: matrices keep their stored dtype, whatever the model's, and so need no further memory.

    Raises:
        InputError: E106, the model does not take the tensors.
    """
    state = model.state_dict()
    stored = ((name, weights.tensor(name)) for name in weights.names())
    tensors = {name: t if as_stored and t.dim() > 1 else t.to(state[name].dtype) for name, t in stored}
    try:
        model.load_state_dict(tensors, strict=False, assign=True)
    except RuntimeError as error:
        raise InputError(
            what="The weights do not fit the model.",
            why=" ".join(str(error).split())[:300],
            fix="Use config.json and weights of the same revision.",
            code="E106",
        ) from error
    tie(model)
    model.requires_grad_(False)
