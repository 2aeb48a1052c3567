"""A model that was found and checked, before anything is built or loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgec.bundle.input_preparation import Preparations
from edgec.bundle.sentence_prompts import SentencePrompts
from edgec.exporter.sources.decoders.stored_rotations import hold_rotations
from edgec.exporter.sources.encoders.encoder_decoder import Source, generating_class
from edgec.exporter.sources.hf_config import AUDIO_LANGUAGE, ENCODER_DECODER, VISION_LANGUAGE
from edgec.exporter.sources.model_build import build, untie
from edgec.exporter.sources.multimodal.audio_input import AudioInput
from edgec.exporter.sources.multimodal.audio_language import generating_audio_class
from edgec.exporter.sources.multimodal.vision_language import VisionInput
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import RandomWeights
from edgec.ir.program import Dynamic

ModuleFactory = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]
ModelWeights = BoundWeights | RandomWeights


@dataclass(frozen=True)
class ModelSource:
    """A model found and checked, before anything is built or loaded.

    Attributes:
        name: a short name, the default for the bundle.
        kind: ``decoder`` (a causal language model), ``encoder-decoder``, ``vision-language``, ``audio-language`` or
            ``module``.
        source: MODEL as given.
        path: the local folder, or None for a factory.
        config: the effective transformers config (of the text decoder where it is nested); for a factory, its name
            and the sha256 of the state that it made.
        revision: the hub commit, or None.
        licence: its identifier, or None when neither model card nor licence file states one.
        trained: False for random weights.
        weights: under the parameter names of the built model; None for a factory, whose module owns its weights.
        tokenizer_files: the tokenizer's files that are present.
        generation_config: as stored, or empty.
        task: optimum's name of what the model does, or None for a factory.
        files: every file that was read, for the keys of the stage cache.
        seed: seed of random weights and example inputs.
        input_names: the arguments for which the example inputs stand (transformers modules; a factory's ``forward``
            names its own).
        prepared: how images and sounds become its inputs, as its factory declares.
        factory: returns the module with its weights, and its example inputs (kind ``module``); a user's factory is
            called once, and this returns what it made.
        hf_config: the transformers config object, or None for a factory.
        reads: what the encoder of an encoder-decoder reads, or None.
        vision: what the image encoder of a vision-language model reads, or None.
        audio: what the audio encoder of a speech-language model reads, or None.
        tokens: how many tokens a text encoder reads, where its shapes may vary; None for other models.
        prompts: what goes before the texts of a sentence encoder; None where nothing does.
        longest: tokens of the longest text that the model will be given, by which rotary frequencies are chosen that
            depend on it; None: no longer than the first ones serve.
    """

    name: str
    kind: str
    source: str
    path: Path | None = None
    config: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None
    licence: str | None = None
    trained: bool = True
    weights: ModelWeights | None = None
    tokenizer_files: tuple[Path, ...] = ()
    generation_config: dict[str, Any] = field(default_factory=dict)
    task: str | None = None
    files: tuple[Path, ...] = ()
    seed: int = 0
    input_names: tuple[str, ...] = ()
    prepared: Preparations = field(default_factory=dict)
    factory: ModuleFactory | None = field(default=None, repr=False, compare=False)
    hf_config: Any = field(default=None, repr=False, compare=False)
    trust_remote_code: bool = False
    reads: Source | None = None
    vision: VisionInput | None = None
    audio: AudioInput | None = None
    tokens: Dynamic | None = None
    prompts: SentencePrompts | None = None
    longest: int | None = None

    @property
    def untied(self) -> tuple[str, ...]:
        """Parameters that the model's class ties and the checkpoint does not."""
        return self.weights.untied if isinstance(self.weights, BoundWeights) else ()

    @property
    def weight_sizes(self) -> list[int]:
        """The number of values of each weight; a factory's module owns its weights and exists already."""
        if self.weights is not None:
            return [prod(entry.shape) for entry in self.weights.names().values()]
        return [parameter.numel() for parameter in self.factory()[0].parameters()] if self.factory else []

    def build_on(
        self,
        device: str | None = "meta",
        *,
        attn_implementation: str = "eager",
        dtype: torch.dtype = torch.float32,
        held: bool = True,
    ) -> Any:
        """Build the model that generates, with uninitialised parameters; ``weights`` has their values.

        Args:
            device: ``meta``, ``cpu``, or None to follow the caller's mode (FakeTensorMode).
            attn_implementation: a name in transformers' attention registry.
            dtype: of the parameters.
            held: rotary frequencies are those of texts of ``longest`` tokens; else each call's own, as transformers has
                them.

        Raises:
            InputError: E111, the config does not describe a model that can be built; E742, it serves no such text.
        """
        remote = self.trust_remote_code
        model = build_generating(self.kind, self.hf_config, device, attn_implementation, dtype, remote)
        if held:
            if self.reads is not None:
                # Sources of every length are read, and transformers has the first frequencies in short ones.
                hold_rotations(model.get_encoder(), self.reads.most_tokens, others=False)
            hold_rotations(model, self.longest)
        return untie(model, self.untied)


def build_generating(
    kind: str, config: Any, device: str | None, attn_implementation: str, dtype: torch.dtype, trust_remote_code: bool
) -> Any:
    """Build transformers' class that generates, by the kind of model; see ``ModelSource.build_on``."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    makers = {
        ENCODER_DECODER: generating_class,
        VISION_LANGUAGE: lambda _: AutoModelForImageTextToText,
        AUDIO_LANGUAGE: lambda _: generating_audio_class(),
    }
    return build(
        makers.get(kind, lambda _: AutoModelForCausalLM)(config),  # type: ignore[no-untyped-call]
        config,
        device=device,
        attn_implementation=attn_implementation,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
