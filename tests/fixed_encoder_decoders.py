"""Tiny encoder-decoders with methods of fixed shapes, and how far their bundles are from transformers' own models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.log_mel import log_mel
from tests.encoder_decoders import (
    TEXT_FAMILIES,
    VOCABULARY,
    greedy_text,
    save_encoder_decoder,
    tiny_encoder_decoder,
)
from tests.speech_bundles import save_word_tokenizer

COUNT, CONTEXT = 16, 64
PACKAGE: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": "float", "context": CONTEXT}
# What sums of float32 in another order may move, as a share of the largest logit.
FLOAT32 = 1e-4
# The same of float16, where a lead this small may choose another token.
MOST_UNSURE = 0.05
# T5 does not scale its scores: float16 weights alone, with all else in float32, move a random one's logits by 3 %.
SHARP = {"t5": 0.05, "flan_t5": 0.12}
# Tokens compared of 32 at least; NLLB ends each text after one.
FEWEST = {"nllb": 3}


def code_of(call: Any) -> str:
    """The code with which a call is refused."""
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.code


def sounds(seed: int, count: int = 16_000) -> np.ndarray:
    """A window of a tone that grows, float32 [16000]."""
    place = np.arange(count, dtype=np.float32)
    result: np.ndarray = np.sin(place * (0.03 + 0.02 * seed)).astype(np.float32) * np.linspace(
        0, 1, count, dtype=np.float32
    )
    return result


@dataclass(frozen=True)
class FixedEncoderDecoder:
    """A family's bundle with methods of fixed shapes.

    Attributes:
        family: its name.
        bundle: the folder.
        unsure: the lead, as a share of the largest logit, below which rounding may choose another token.
    """

    family: str
    bundle: Path
    unsure: float

    @property
    def most_moved(self) -> float:
        """The share of the largest logit by which rounding moves one after other sources; measured: half of it."""
        return max(2 * self.unsure, SHARP.get(self.family, 0.0) if self.unsure > FLOAT32 else 0.0)

    @property
    def takes_sound(self) -> bool:
        """Whether its encoder reads sound."""
        return self.family not in TEXT_FAMILIES

    def sources(self, model: Any) -> list[torch.Tensor]:
        """What its encoder reads: two windows of features, or texts of three lengths."""
        if self.takes_sound:
            sound = model.encoder_decoder.info.sound
            return [torch.from_numpy(log_mel(sounds(seed), sound)) for seed in (1, 2)]
        made = [torch.Generator().manual_seed(length) for length in (1, 7, 40)]
        return [
            torch.randint(4, VOCABULARY - 2, (1, length), generator=each)
            for length, each in zip((1, 7, 40), made, strict=True)
        ]

    def words(self, source: torch.Tensor) -> list[int]:
        """Transformers' own greedy tokens, up to the first whose lead is too small to tell."""
        reference = tiny_encoder_decoder(self.family)
        start = reference.generation_config.decoder_start_token_id
        tokens = greedy_text(reference, source, COUNT)
        tokens = tokens[1:] if tokens[:1] == [start] else tokens
        given = {reference.main_input_name: source, "decoder_input_ids": torch.tensor([[start, *tokens]])}
        with torch.no_grad():
            logits = reference(**given).logits[0, :-1]
        best = logits.topk(2).values / logits.abs().amax(-1, keepdim=True)
        sure = next((i for i, (first, second) in enumerate(best) if first - second < self.unsure), len(best))
        return tokens[:sure]

    def moved(self, model: Any, source: torch.Tensor, tokens: list[int]) -> float:
        """How far a bundle's logits after some tokens are from transformers' own, as a share of the largest."""
        reference, session = tiny_encoder_decoder(self.family), model.encoder_decoder
        with torch.no_grad():
            given = {reference.main_input_name: source, "decoder_input_ids": torch.tensor([tokens])}
            wanted = reference(**given).logits[0, -1].numpy()
        session.read(source.numpy())
        logits = session.prefill(tokens, 0)
        return float(np.abs(logits - wanted).max() / np.abs(wanted).max())


def exported_of(family: str, format: str, folder: Path) -> FixedEncoderDecoder:
    """A family's bundle in a format."""
    save_word_tokenizer(save_encoder_decoder(family, folder))
    options = {**PACKAGE, "format": format, "target": "host" if format == "onnx" else "iphone"}
    bundle = edgec.export(folder, **options, out=folder.parent / "x.edgec")
    whole = open_bundle(bundle).manifest.parity[-1]
    assert whole.max_abs is not None and whole.reference_max_abs is not None
    # Both of two logits may move by what the ladder measured, and by half as much again after other sources.
    return FixedEncoderDecoder(family, bundle, max(3 * whole.max_abs / whole.reference_max_abs, FLOAT32))


def written(exported: FixedEncoderDecoder, model: Any, source: torch.Tensor) -> list[int]:
    """What a bundle says after a source."""
    if not exported.takes_sound:
        return list(model.generate(source[0].tolist(), max_new_tokens=COUNT).tokens)
    seed = 1 if torch.equal(source, exported.sources(model)[0]) else 2
    return [token for each in model.transcribe(sounds(seed), max_new_tokens=COUNT).segments for token in each.tokens]
