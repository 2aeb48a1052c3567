"""What a GGUF file will say of a model, read back before any work: config and tokenizer must be the model's own.

config, tokenizer -> metadata, rotary factors -> a file without weights -> edgec's own reader -> config, tokenizer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor

from edgec.backends.gguf.file import Describe, FileTensor, write_file
from edgec.bundle.encoding import token_ids
from edgec.bundle.gguf_header import GgufTensor
from edgec.bundle.golden_texts import TEXTS
from edgec.exporter.gguf_file.architectures import architecture_name, describe_architecture, unwritten
from edgec.exporter.gguf_file.places import GgufPlace, places_of
from edgec.exporter.gguf_file.rotation import rope_of, rotation_tensors
from edgec.exporter.gguf_file.vocabulary import GgufTokens, describe_nothing, first_that_reads, vocabularies
from edgec.exporter.sources.gguf.config import EMBEDDING, gguf_config
from edgec.exporter.sources.gguf.file import GgufFile, read_gguf
from edgec.exporter.sources.gguf.tokenizer import write_tokenizer
from edgec.exporter.sources.gguf.vocabulary import read_vocabulary
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.tokenizer import load_tokenizer

_GATE = "blk.0.ffn_gate.weight"
_ORIGINAL = "original_max_position_embeddings"
# What decides on a decoder's numbers beside its weights; of other names configs may differ.
_DECIDING = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"),
    *("hidden_act", "hidden_activation", "rms_norm_eps", "norm_eps", "attention_bias", "mlp_bias", "layer_types"),
    *("query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping", "no_rope_layers"),
    *("norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "num_experts", "num_experts_per_tok"),
    *("moe_intermediate_size", "conv_L_cache", "conv_bias", _ORIGINAL),
)
_SAME = 1e-6
_MORE_TEXTS = (
    ("digits", "1 12 123 1234 12345, 2026 and 1234567890; x1y22z333"),
    ("upper contractions", "I'LL SAY IT'S WE'VE HERE'S don'T can't'll"),
    ("letters and marks", "camelCase HTTPServer ÀÉÎ ǅ ʰ naïve\u0301 CamelÉté's iPhone14Pro/Max"),
    ("lines", "a\n\n  b\r\n\r\n\tc /\n/ d.\n\n\n"),
)
_SAMPLED: Mapping[str, str] = {
    **{"temperature": "temp", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"},
    **{"repetition_penalty": "penalty_repeat"},
}


@dataclass(frozen=True)
class GgufDescription:
    """A file without its weights.

    Attributes:
        architecture: llama.cpp's name of it.
        describe: tells a ``gguf.GGUFWriter`` all metadata but what depends on the types of tensors.
        factors: rotary factors that stand in tensors, by their names.
        places: of all parameters, an lm_head of its own included.
    """

    architecture: str
    describe: Describe
    factors: Mapping[str, Tensor]
    places: Sequence[GgufPlace]


def describe_model(source: ModelSource, tokenizer: Any) -> GgufDescription:
    """Describe a model, and check that a reader would build the very same one.

    Args:
        source: a decoder.
        tokenizer: of transformers, or None.

    Raises:
        InputError: E825, the model has no place in GGUF; E826, its tokenizer has none.
    """
    config = source.config
    architecture, places = architecture_name(config), places_of(config, parameter_shapes(source))
    bare = GgufDescription(architecture, partial(_describe, source, places), rotation_tensors(config), places)
    _check_config(source, bare)
    if tokenizer is None:
        return replace(bare, describe=_both(bare.describe, describe_nothing))
    ends = source.generation_config.get("eos_token_id", config.get("eos_token_id"))
    named = [end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int)]
    differing = partial(_differing, bare, tokenizer, source)
    candidates = vocabularies(tokenizer, int(config["vocab_size"]), named)
    chosen = first_that_reads(candidates, differing, source.name)
    return replace(bare, describe=_both(bare.describe, chosen.describe, partial(_describe_chat, source, tokenizer)))


def parameter_shapes(source: ModelSource) -> dict[str, tuple[int, ...]]:
    """The shapes of a decoder's parameters and stored buffers; a tied lm_head is there as well."""
    state = source.build_on("meta").state_dict()
    return {name: tuple(value.shape) for name, value in state.items()}


def _both(*parts: Describe) -> Describe:
    def describe(writer: Any) -> None:
        for part in parts:
            part(writer)

    return describe


def _describe(source: ModelSource, places: Sequence[GgufPlace], writer: Any) -> None:
    writer.add_name(source.name)
    if source.licence:
        writer.add_license(source.licence)
    shapes = {place.name: place.shape for place in places}
    # LFM2 computes the width from the one it states.
    widths = shapes.get(_GATE, (int(source.config.get("intermediate_size") or 0),))
    describe_architecture(writer, source.config, int(widths[0]))
    for name, key in _SAMPLED.items():
        value = source.generation_config.get(name)
        if isinstance(value, int | float) and source.generation_config.get("do_sample"):
            (writer.add_int32 if name == "top_k" else writer.add_float32)(f"general.sampling.{key}", value)


def _describe_chat(source: ModelSource, tokenizer: Any, writer: Any) -> None:
    template = getattr(tokenizer, "chat_template", None)
    named: Mapping[str, str] = {"default": template} if isinstance(template, str) else template or {}
    for name, text in sorted(named.items()):
        writer.add_string("tokenizer.chat_template" + (f".{name}" if name != "default" else ""), text)
    if others := sorted(set(named) - {"default"}):
        writer.add_array("tokenizer.chat_templates", others)


def _read_back(description: GgufDescription, describe: Describe, folder: Path) -> GgufFile:
    """What a reader finds in the file; tensors are told, and those of rotary factors are there."""
    tensors = [factors_tensor(name, values) for name, values in description.factors.items()]
    file = folder / "described.gguf"
    write_file(file, description.architecture, describe, tensors, lambda done, total: None)
    read = read_gguf(file)
    told = {place.name: GgufTensor(place.name, "F32", place.shape, file, 0, 0) for place in description.places}
    return replace(read, tensors={**told, **read.tensors})


def factors_tensor(name: str, values: Tensor) -> FileTensor:
    """A vector of float32 as a tensor of a file."""
    return FileTensor(name, "F32", tuple(values.shape), lambda: values.float().numpy().view(np.uint8))


def _check_config(source: ModelSource, description: GgufDescription) -> None:
    """Refuse a model that the metadata would describe otherwise."""
    from transformers import AutoConfig

    with TemporaryDirectory() as folder:
        told = gguf_config(_read_back(description, description.describe, Path(folder)))
    read = AutoConfig.for_model(**told)
    known = source.hf_config
    for name in (*_DECIDING, "rope_parameters", "sliding_window"):
        here, there = _stated(known, name), _stated(read, name)
        if not _same(here, there):
            raise unwritten(f"{source.name}, {name}", f"it is {here!r}, and the GGUF file would say {there!r}")


def _stated(config: Any, name: str) -> Any:
    """A value of a config; a window that no layer uses is none, nor is a length that no frequency depends on."""
    value = getattr(config, name, None)
    if name == "head_dim":
        return value or config.hidden_size // config.num_attention_heads
    if name == _ORIGINAL:
        return value if (rope_of(config.to_dict()).get("rope_type") == "longrope") else None
    if name == "sliding_window":
        used = getattr(config, "use_sliding_window", True) and "sliding_attention" in (
            getattr(config, "layer_types", None) or ["sliding_attention"]
        )
        return value if used else None
    return value


def _same(here: Any, there: Any) -> bool:
    """Equal, with numbers as float32 holds them; a reader may say more of a table than the model does."""
    if isinstance(here, Mapping):
        stated = {key: value for key, value in here.items() if value is not None}
        return isinstance(there, Mapping) and all(_same(value, there.get(key)) for key, value in stated.items())
    if isinstance(here, list | tuple):
        pairs = zip(here, there, strict=False) if isinstance(there, list | tuple) else ()
        return isinstance(there, list | tuple) and len(here) == len(there) and all(_same(*pair) for pair in pairs)
    if isinstance(here, float) and isinstance(there, int | float):
        return math.isclose(here, there, rel_tol=_SAME)
    return not here and not there if here in (None, False) else here == there


def _differing(
    description: GgufDescription, tokenizer: Any, source: ModelSource, vocabulary: GgufTokens
) -> Sequence[str]:
    """The labels of texts of which a reader's tokenizer gives other ids."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = _read_back(description, _both(description.describe, vocabulary.describe), folder)
        read = read_vocabulary(file)
        assert read is not None and EMBEDDING in file.tensors
        write_tokenizer(read, description.architecture, int(source.config["max_position_embeddings"]), folder)
        other = load_tokenizer(folder)
    texts = (*TEXTS, *_MORE_TEXTS)
    return [label for label, text in texts if token_ids(tokenizer, text) != token_ids(other, text)]
