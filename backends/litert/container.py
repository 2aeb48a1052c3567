"""``.litertlm``: a ``.tflite`` with its tokenizer and what LiteRT-LM must know of it, in sections of one file.

LITERTLM, version, header (a flatbuffer of section ends), sections at multiples of 16 KiB
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from edgec.backends.litert.toolkit import runtime_module
from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes
from edgec.errors import InputError

MAGIC: Final = b"LITERTLM"
TOKENIZER: Final = "tokenizer.json"
"""The file that LiteRT-LM reads of a tokenizer."""
_BUILDER: Final = "litert_lm_builder"
_MODEL: Final = "TFLiteModel"
_LENGTH_AT, _HEADER_AT = 24, 32
_PLACE: Final = "tflite"


@dataclass(frozen=True)
class LanguageFacts:
    """What LiteRT-LM must know of a model.

    Attributes:
        begins: the id that a prompt begins with; None where the tokenizer puts none.
        ends: the ids that end a text.
        pad: the id of padding, or None.
        context: the most tokens of a text, prompt and answer together.
        template: the chat template, Jinja.
        sampling: ``temperature``, ``top_k`` and ``top_p``, as far as they are known.
        greedy: the likeliest token is chosen.
    """

    begins: int | None
    ends: Sequence[int]
    pad: int | None
    context: int
    template: str
    sampling: Mapping[str, float] = field(default_factory=dict)
    greedy: bool = True


def pack(model: Path, tokenizer: Path, facts: LanguageFacts, path: Path) -> None:
    """Write a ``.litertlm``.

    Args:
        model: a ``.tflite`` with LiteRT-LM's signatures.
        tokenizer: a ``tokenizer.json``.
        facts: of the model.
        path: where to.

    Raises:
        ToolError: E900, the packer is not installed.
    """
    packer = runtime_module(f"{_BUILDER}.litertlm_builder")
    builder = packer.LitertLmFileBuilder()
    builder.add_system_metadata(packer.Metadata(key="Authors", value="edgec", dtype=packer.DType.STRING))
    with TemporaryDirectory() as folder:
        told = Path(folder) / "llm_metadata.pb"
        told.write_bytes(language_metadata(facts).SerializeToString())
        builder.add_llm_metadata(str(told))
        builder.add_hf_tokenizer(str(tokenizer))
        builder.add_tflite_model(str(model), packer.TfLiteModelType.PREFILL_DECODE)
        with path.open("wb") as stream:
            builder.build(stream)


def language_metadata(facts: LanguageFacts) -> Any:
    """LiteRT-LM's message of these facts."""
    proto = runtime_module(f"{_BUILDER}.runtime.proto.llm_metadata_pb2")
    message = proto.LlmMetadata()
    for name, token in (("start_token", facts.begins), ("pad_token", facts.pad)):
        if token is not None:
            getattr(message, name).token_ids.ids.append(token)
    for token in facts.ends:
        message.stop_tokens.add().token_ids.ids.append(token)
    message.max_num_tokens = facts.context
    message.llm_model_type.generic_model.SetInParent()
    message.jinja_prompt_template = facts.template
    message.supports_thinking = message.supports_function_calling = False
    _give_sampling(message.sampler_params, facts)
    return message


def _give_sampling(params: Any, facts: LanguageFacts) -> None:
    if facts.greedy:
        params.type, params.k, params.temperature = params.TOP_K, 1, 1.0
        return
    params.type = params.TOP_P
    params.k = int(facts.sampling.get("top_k", 0)) or _EVERY
    params.p = facts.sampling.get("top_p", 1.0)
    params.temperature = facts.sampling.get("temperature", 1.0)


_EVERY: Final = 64
"""The likeliest tokens that are chosen among where the model names no number: LiteRT-LM needs one."""


def unreadable_tokenizer(name: str) -> InputError:
    """The refusal of a model, by its name, whose tokenizer a ``.litertlm`` has no place for."""
    return InputError(
        "LiteRT-LM cannot read this model's tokenizer.",
        where=name,
        why=f"it reads {TOKENIZER}, and this model has none",
        fix="save the tokenizer with transformers (AutoTokenizer.from_pretrained(..., use_fast=True)."
        "save_pretrained), or export with --format tflite, which holds none",
        code="E906",
    )


def model_bytes(path: Path) -> bytes:
    """The ``.tflite`` of an artifact of either format.

    Raises:
        InputError: E905, the file is damaged.
    """
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        return content
    begin, end = _section(content, path)
    return content[begin:end]


def _section(content: bytes, path: Path) -> tuple[int, int]:
    """Where the model lies in a ``.litertlm``."""
    header = runtime_module(f"{_BUILDER}.litertlm_header_schema_py_generated")
    try:
        length = int.from_bytes(content[_LENGTH_AT : _LENGTH_AT + 8], "little")
        held = header.LiteRTLMMetaData.GetRootAs(content[_HEADER_AT:length], 0).SectionMetadata()
        sections = [held.Objects(place) for place in range(held.ObjectsLength())]
        kind = getattr(header.AnySectionDataType, _MODEL)
        begin, end = next((each.BeginOffset(), each.EndOffset()) for each in sections if each.DataType() == kind)
    except Exception as error:  # flatbuffers reads damaged bytes as offsets, and fails in many ways
        raise _damaged(path, "its header cannot be read") from error
    if not _HEADER_AT < begin < end <= len(content):
        raise _damaged(path, f"its model is said to lie at {begin:,} to {end:,} of {len(content):,} bytes")
    return begin, end


def _damaged(path: Path, why: str) -> InputError:
    return InputError("This .litertlm is damaged.", where=path.name, why=why, fix="export the model again", code="E905")


def model_layout(path: Path) -> ArtifactLayout:
    """The bytes of an artifact of either format: constants of the model, and structure, which is all the rest."""
    schema = runtime_module("ai_edge_litert.schema_py_generated")
    model = schema.Model.GetRootAs(model_bytes(path), 0)
    stored: dict[int, StoredBytes] = {}
    for graph in (model.Subgraphs(place) for place in range(model.SubgraphsLength())):
        for tensor in (graph.Tensors(place) for place in range(graph.TensorsLength())):
            buffer = model.Buffers(tensor.Buffer())
            if buffer.DataLength() and tensor.Buffer() not in stored:
                stored[tensor.Buffer()] = _run(schema, graph, tensor, buffer)
    size = path.stat().st_size
    return ArtifactLayout(size, size - sum(run.bytes for run in stored.values()), 0, 0, tuple(stored.values()))


def _run(schema: Any, graph: Any, tensor: Any, buffer: Any) -> StoredBytes:
    data = buffer.DataAsNumpy()
    shape = tuple(int(size) for size in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()
    kind = next(name for name, value in vars(schema.TensorType).items() if value == tensor.Type())
    digest = hashlib.sha256(np.ascontiguousarray(data).data).hexdigest()
    return StoredBytes(f"{tensor.Buffer()}", _PLACE, len(data), digest, kind.lower(), shape)
