"""How far each layer of a fixed-point model is from the float model: which layer is to blame where much is lost.

    float ONNX       -> inputs of one call -> outputs of every matrix -+
    fixed-point ONNX -> the same           -> outputs of every matrix -+-> relative error of the median token, by layer

Both run on ONNX Runtime's CPU kernels. A token's error is the length of the difference by the length of its values, and
of all tokens the median counts: one with huge values, as trained models have at the start of a text, says little.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.backends.onnx.methods import cpu_session
from edgec.passes.graph.layer_names import plain_name

FILE = "layers.json"
Losses = Mapping[str, float]
"""Relative error of each layer's output, by the layer's name, in the model's order."""
_MATRICES = ("Conv", "MatMul")


def layer_losses(source: Path, target: Path, feeds: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, float]:
    """Compare the outputs of all matrices of two models.

    Args:
        source: float ONNX.
        target: the fixed-point model that was made from it; tensors have the same names.
        feeds: the inputs of one call as arrays, for either model.
    """
    layers = _layers(source)
    wanted, got = (_values(path, feed, list(layers)) for path, feed in zip((source, target), feeds, strict=True))
    return {layer: _typical_error(*pair) for layer, *pair in zip(layers.values(), wanted, got, strict=True)}


def _layers(source: Path) -> dict[str, str]:
    """The layers of a float model by the name of their output."""
    import onnx

    graph = onnx.load(str(source), load_external_data=False).graph
    held = {tensor.name for tensor in graph.initializer}
    return {n.output[0]: plain_name(n.input[1]) for n in graph.node if n.op_type in _MATRICES and n.input[1] in held}


def _values(path: Path, feed: Mapping[str, Any], names: Sequence[str]) -> list[Tensor]:
    """Some values inside a model, which is written once more with these as its outputs."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    own = {value.name for value in model.graph.output}
    shown = [onnx.ValueInfoProto(name=name) for name in names if name not in own]
    model.graph.output.extend(shown)
    copy = path.with_name(f"shown_{path.name}")
    try:
        onnx.save(model, str(copy))
        return [torch.from_numpy(value) for value in cpu_session(copy).run(list(names), dict(feed))]
    finally:
        copy.unlink(missing_ok=True)


def _typical_error(wanted: Tensor, got: Tensor) -> float:
    """The relative error of a token, of which half of the tokens have less; [1, C, 1, S] or [..., S, C]."""
    channels = 1 if wanted.dim() == 4 else -1
    error = (wanted - got).norm(dim=channels) / wanted.norm(dim=channels).clamp_min(1e-12)
    return float(error.nan_to_num(math.inf).median())


def save_losses(folder: Path, losses: Losses) -> None:
    """Keep the losses of a part next to its fixed-point models."""
    (folder / FILE).write_text(
        json.dumps({name: loss if math.isfinite(loss) else None for name, loss in losses.items()})
    )


def load_losses(folders: Sequence[Path]) -> dict[str, float]:
    """The losses of all parts, in order."""
    kept = [json.loads((folder / FILE).read_text()) for folder in folders]
    return {name: math.inf if loss is None else loss for part in kept for name, loss in part.items()}


def said(losses: Losses) -> str:
    """What the ladder says: the layer that lost most, and the first that lost half of what it should say."""
    if not losses:
        return ""
    worst = max(losses, key=lambda name: losses[name])
    lost = next((name for name, loss in losses.items() if loss > 0.5), None)
    first = f"; the first beyond 50 %: {lost}" if lost and lost != worst else ""
    return f"furthest from the graph is {worst}, by {losses[worst]:.1%} of its values (median of the tokens){first}"
