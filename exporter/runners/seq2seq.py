"""A speech model's artifact in the loop of ExecuTorch's own speech runner: a rung of the parity ladder.

    features -> edgec                    encode, cross, forward ... -> the likeliest tokens -+
             -> Seq2SeqRunner's own loop encoder, text_decoder ...  -> tokens ---------------+-> the same

Both write one token a call, from the one that begins texts on. No wheel has the class: its loop is followed in Python
over ExecuTorch's runtime (runtime_py/runners/seq2seq.py), which the rung says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgec.bundle.entry_points import TEXT_DECODER
from edgec.bundle.findings import Rung
from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import ToolError
from edgec.exporter.parity.encoder_decoder import ExecutedEncoderDecoder
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.executorch import wrong_constants
from edgec.exporter.runners.texts import TOKENS, agreed, told
from edgec.exporter.runners.words import OwnText, token_agreement
from edgec.exporter.stages.cpu_methods import runner_facts
from edgec.ir.call_plan import Call
from edgec.runtime_py.runners import executorch_llm
from edgec.runtime_py.runners.executorch_llm import runner_version
from edgec.runtime_py.runners.seq2seq import NAME, Seq2SeqLoop

_SOUNDS = 2


def seq2seq_rung(artifact: Path, operators: Sequence[str], request: ExportRequest, epsilon: float) -> Rung | None:
    """Follow the runner's loop after two sounds, and compare with what edgec's own runtime writes by the same artifact.

    Args:
        artifact: the .pte file of an encoder-decoder for a CPU; it passed the other rungs.
        operators: the kernels that it needs, by name.
        request: what is exported.
        epsilon: how far two logits of right executions may differ.

    Returns:
        None where runners are turned off.
    """
    if not executorch_llm.AUTOMATIC:
        return None
    start, facts = _start(request), runner_facts(request)
    reason = _unfit(artifact, request)
    if reason or start is None or facts is None:
        return told(NAME, f"not run: {reason or 'no token begins texts'}", gated=False)
    sounds, count = made_features(request), min(TOKENS, request.limits.context)
    try:
        loop = Seq2SeqLoop(artifact, operators, start)
        written = loop.write([each.numpy() for each in sounds], count)
    except ToolError as error:
        return told(NAME, f"not run: {error.why}", gated=False)
    if wrong := wrong_constants(written.constants, facts):
        return told(NAME, wrong, gated=True)
    methods = ExecutedEncoderDecoder.of_program(artifact)
    own = [_own_text(methods, each, start, count, facts.ends) for each in sounds]
    found = [token_agreement(*pair, epsilon) for pair in zip(own, written.texts, strict=True)]
    runtime = f"followed in Python over executorch {runner_version()}, not run as the C++ class that it is in"
    return agreed(NAME, runtime, "", found, epsilon)


def made_features(request: ExportRequest) -> list[Tensor]:
    """Seeded features of two sounds, of the encoder's shape."""
    assert request.source.reads is not None
    shape = request.source.reads.sizes(0)
    return [torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) for seed in range(_SOUNDS)]


def _start(request: ExportRequest) -> int | None:
    config = GenerationConfig.model_validate(request.source.generation_config)
    return config.bos_token_id if config.decoder_start_token_id is None else config.decoder_start_token_id


def _unfit(artifact: Path, request: ExportRequest) -> str:
    """Why the runner cannot take the artifact, in words; empty where it can."""
    from edgec.bundle.pte_layout import method_names

    reads = request.source.reads
    assert reads is not None
    if reads.sound is None:
        kind = "tokens" if reads.is_text else "samples"
        return f"its encoder reads {kind}, and the runner gives features of sound [1, M, T]"
    if TEXT_DECODER not in method_names(artifact):
        return "its methods read more than features, states and tokens, which is all that the runner gives"
    return ""


def _own_text(
    methods: ExecutedEncoderDecoder, features: Tensor, start: int, count: int, ends: Sequence[int]
) -> OwnText:
    """The likeliest tokens after a sound up to one that ends a text, by edgec's own calls, one token in each."""
    memory = methods.memory([features])
    tokens, rows = [start], list[Tensor]()
    while len(rows) < count and (not rows or tokens[-1] not in ends):
        rows.append(methods.written(tokens, Call(len(rows), 1, 1), memory)[0])
        tokens.append(int(rows[-1].argmax()))
    return OwnText(tokens[1:], rows)
