"""The numbers of a decoder that decide how fast it runs, for those who measure its bundle."""

from __future__ import annotations

from pydantic import Field

from edgec.bundle.part import JsonCount, JsonPart, JsonSize


class AlikeLayers(JsonPart):
    """``count`` layers in a row of one shape; ``kv_donor``: the layer whose keys and values a layer reads."""

    count: JsonSize
    heads: JsonCount
    kv_heads: JsonCount
    head_dim: JsonCount
    window: JsonSize | None = None
    kv_donor: JsonCount | None = None


class DecoderNumbers(JsonPart):
    """Layers and parameters of a decoder.

    ``matrices``: parameters that one token is multiplied with, of experts the chosen ones, without lm_head and
    embedding; ``prompt_matrices``: of these, those that every token of a prompt needs.
    """

    layers: list[AlikeLayers] = Field(min_length=1, max_length=4096)
    matrices: JsonCount
    prompt_matrices: JsonCount
    lm_head: JsonCount
