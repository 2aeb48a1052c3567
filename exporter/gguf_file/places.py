"""Where a decoder's parameters stand in a GGUF file, and in what order their rows lie there.

model.layers.0.self_attn.q_proj.weight [heads x (half, half)]   ->  blk.0.attn_q.weight [heads x pairs]
model.layers.0.mlp.experts.gate_up_proj [E, 2 I, H]             ->  blk.0.ffn_gate_exps.weight, ..._up_exps.weight
model.norm.weight (what exceeds one)                            ->  output_norm.weight (the factor)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from edgec.backends.gguf.graph_tensors import LM_HEAD
from edgec.exporter.gguf_file.architectures import NAMES, unwritten
from edgec.exporter.sources.gguf.architectures import ARCHITECTURES
from edgec.exporter.sources.gguf.weights import row_order

_JOINED = re.compile(r"\.layers\.(\d+)\..*experts\.gate_up_proj$")
_SUFFIXES = (".weight", ".bias")
_TURNED = re.compile(r"\.attn_(q|k)\.(weight|bias)$")


@dataclass(frozen=True)
class GgufPlace:
    """One tensor of a file.

    Attributes:
        name: there.
        parameter: what it is made of.
        shape: there.
        heads: rows of each of so many heads lie in pairs there and half a head apart in the parameter; 0: as they are.
        half: of experts' joined matrices: which half of each one's rows; None: all rows.
        centred: one is added to every value.
    """

    name: str
    parameter: str
    shape: tuple[int, ...]
    heads: int = 0
    half: int | None = None
    centred: bool = False

    def order(self, rows: int) -> Tensor | None:
        """The parameter's row that comes to each place, int64; None where all stay.

        Args:
            rows: of the parameter, all dimensions but the last together.
        """
        if self.half is not None:
            return torch.arange(rows).view(self.shape[0], 2, -1)[:, self.half].reshape(-1)
        return row_order(rows, self.heads).argsort() if self.heads else None


def places_of(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> list[GgufPlace]:
    """The tensors of a file, in the order of the parameters.

    Args:
        config: of transformers.
        shapes: of all parameters and stored buffers, by their names; those that the file shall hold.

    Raises:
        InputError: E825, GGUF has no place for one.
    """
    from gguf.constants import MODEL_ARCH_NAMES
    from gguf.tensor_mapping import get_tensor_name_map

    architecture = NAMES[config["model_type"]]
    codes = {name: code for code, name in MODEL_ARCH_NAMES.items()}
    table = get_tensor_name_map(codes[architecture], config["num_hidden_layers"])
    place = partial(_places, table, architecture, config)
    return [each for name, shape in shapes.items() for each in place(name, shape)]


def _places(
    table: Any, architecture: str, config: Mapping[str, Any], name: str, shape: tuple[int, ...]
) -> list[GgufPlace]:
    if joined := _JOINED.search(name):
        experts, rows, width = shape
        halves = enumerate(("gate", "up"))
        own = (experts, rows // 2, width)
        return [GgufPlace(f"blk.{joined[1]}.ffn_{part}_exps.weight", name, own, half=half) for half, part in halves]
    stored = table.get_name(name, try_suffixes=_SUFFIXES)
    if stored is None and name == LM_HEAD and config.get("tie_word_embeddings"):
        return []
    if stored is None:
        raise unwritten(name, f"GGUF's architecture {architecture} has no tensor for this parameter")
    stored = stored if stored.endswith(_SUFFIXES) else f"{stored}.weight"
    known = ARCHITECTURES[architecture]
    counts = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    match = _TURNED.search(stored) if known.neighbours else None
    centred = known.centred_norms and stored.endswith("norm.weight")
    # Filters of convolutions are stored without their dimension of one.
    plain = (shape[0], shape[2]) if len(shape) == 3 and shape[1] == 1 else shape
    return [GgufPlace(stored, name, plain, counts[match[1]] if match else 0, centred=centred)]
