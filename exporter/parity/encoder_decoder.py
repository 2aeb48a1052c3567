"""Run any form of an encoder-decoder on the same sources and tokens: the sources of ``encode``, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import ENCODER_DECODER_METHODS
from edgec.exporter.capture.encoder_decoder import decode, remembering_cache
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.outputs import flatten_outputs, sizes_of
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.exporter.parity.probed_method import Executed, ProbedMethod
from edgec.exporter.sources.encoder_decoder import Source
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights import Weights
from edgec.ir.call_plan import compared_positions, last_rows
from edgec.ir.program import Dynamic, Interface

# Lengths of the sources that are read: not a multiple of any kernel's tile, then one that is shorter.
_LENGTHS = (37, 5)
# Of a waveform: not a multiple of any stride.
_SAMPLES = 9_001


@dataclass(frozen=True)
class SourceProbe:
    """Sources on which encoders are compared; the decoder writes after the first.

    Attributes:
        name: the input's name.
        sources: int64 [1, T] each, or float32 of the encoder's fixed shape.
    """

    name: str
    sources: tuple[Tensor, ...]


def source_probe(reads: Source, probe: Probe, vocab_size: int) -> SourceProbe:
    """Choose what the encoder reads: parts of the probe's text, else seeded values of the encoder's own shape.

    Where the length of a waveform varies, a source of many states comes first, then the shortest.
    """
    varying = next((d for d in reads.shape if isinstance(d, Dynamic)), None)
    if varying is None or not reads.is_text:
        generator = torch.Generator().manual_seed(0)
        sizes = [reads.sizes(length) for length in ((_SAMPLES, 0) if varying else (0,))]
        return SourceProbe(reads.name, tuple(torch.randn(*each, generator=generator) for each in sizes))
    lengths = sorted({min(length, varying.high) for length in _LENGTHS}, reverse=True)
    tokens = [probe.tokens[i % len(probe.tokens)] % vocab_size for i in range(1, lengths[0] + 1)]
    return SourceProbe(reads.name, tuple(torch.tensor([tokens[-length:]]) for length in lengths))


@dataclass(frozen=True)
class EncoderDecoderReference:
    """What transformers' own model computes: an encoder's states, a decoder's keys and values of them, its logits.

    Attributes:
        states: for each source, float32 [1, T, C].
        memory: of the first source, float32 [1, T, G, D] each: key and value of every layer in turn.
        logits: float32 [P, V] at the probe's compared positions.
    """

    states: tuple[Tensor, ...]
    memory: tuple[Tensor, ...]
    logits: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, to be stored with the rungs."""
        named = {"states": self.states, "memory": self.memory, "logits": (self.logits,)}
        return {f"{name}.{i}": value for name, values in named.items() for i, value in enumerate(values)}

    @classmethod
    def read(cls, kept: Mapping[str, Tensor]) -> EncoderDecoderReference:
        """Restore a reference from what ``tensors`` returned."""
        lists = {name: [key for key in kept if key.startswith(f"{name}.")] for name in ("states", "memory", "logits")}
        states, memory, logits = (tuple(kept[f"{name}.{i}"] for i in range(len(keys))) for name, keys in lists.items())
        return cls(states, memory, logits[0])


def eager_reference(
    source: ModelSource, weights: Weights, sources: SourceProbe, probe: Probe
) -> EncoderDecoderReference:
    """Run transformers' own model in float32 over the weights as they are stored, without its own cache.

    Raises:
        InputError: E769, its code fails.
    """
    model = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    tokens, rows = torch.tensor([list(probe.tokens)]), compared_positions(probe.plan)
    with own_code(model, "a source and a text"), torch.no_grad(), InFloat32(None):
        states = tuple(model.get_encoder()(**{sources.name: each}).last_hidden_state for each in sources.sources)
        cache = remembering_cache()
        decode(model, tokens[:, :2], states[0], cache)
        kept: Mapping[int, tuple[Tensor, Tensor]] = cache.cross_attention_cache.kept
        memory = tuple(value.transpose(1, 2).contiguous() for layer in sorted(kept) for value in kept[layer])
        logits = decode(model, tokens, states[0])[0, rows]
    return EncoderDecoderReference(states, memory, logits.float())


@dataclass(frozen=True)
class ProbedEncoderDecoder:
    """What an encoder-decoder is compared on.

    Attributes:
        sources: what the encoder reads.
        text: what the decoder writes after the first source.
        reference: what transformers' own model computes.
    """

    sources: SourceProbe
    text: Probe
    reference: EncoderDecoderReference

    def methods(self) -> Mapping[str, ProbedMethod]:
        """The methods, each on what transformers' model gave the one before it."""
        states, memory = self.reference.states, self.reference.memory
        encoded, crossed = [ProbeCall([each]) for each in self.sources.sources], [ProbeCall([states[0]])]
        encode, cross, forward = ENCODER_DECODER_METHODS
        return {
            encode: ProbedMethod(encode, lambda _: encoded, flatten_outputs(states), sizes_of(states)),
            cross: ProbedMethod(cross, lambda _: crossed, flatten_outputs(memory), sizes_of(memory), layer_outputs=2),
            forward: ProbedMethod(forward, self._text_calls, self.reference.logits),
        }

    def _text_calls(self, interface: Interface) -> Sequence[ProbeCall]:
        names = [tensor.name for tensor in interface.inputs if tensor.name.startswith("cross_")]
        given = dict(zip(names, self.reference.memory, strict=True))
        return text_calls(interface, self.text.tokens, self.text.plan, lambda start, size: given)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the reference by name, to be stored with the rungs."""
        return self.reference.tensors()

    def execute(self, artifact: Path) -> Executed:
        """Execute the methods of an artifact, each alone, and all of them from the first source to the logits."""
        methods, reference, sources = ExecutedEncoderDecoder(artifact), self.reference, self.sources.sources
        alone = (
            methods.states(sources),
            methods.keys_and_values(reference.states[0]),
            methods.plan_logits(reference.memory, self.text),
        )
        whole = methods.plan_logits(methods.memory(sources[0]), self.text)
        return Executed(dict(zip(ENCODER_DECODER_METHODS, alone, strict=True)), whole)


class ExecutedEncoderDecoder:
    """The methods of an artifact in ExecuTorch's runtime, in this process."""

    def __init__(self, artifact: Path) -> None:
        """Load the artifact.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        self._encode, self._cross, self._forward = (TorchMethod(artifact, n) for n in ENCODER_DECODER_METHODS)

    def states(self, sources: Sequence[Tensor]) -> Tensor:
        """The states of all sources in one row."""
        return flatten_outputs([self._encode([each])[0] for each in sources])

    def keys_and_values(self, states: Tensor) -> Tensor:
        """The keys and values of all layers in one row, of an encoder's states [1, T, C]."""
        return flatten_outputs(self._cross([states]))

    def memory(self, source: Tensor) -> Sequence[Tensor]:
        """A source's keys and values, float32 [1, T, G, D] each."""
        memory: Sequence[Tensor] = self._cross(self._encode([source]))
        return memory

    def plan_logits(self, memory: Sequence[Tensor], probe: Probe) -> Tensor:
        """Logits [P, V] at the probe's compared positions, after a source."""
        parts = [probe.tokens[call.start : call.start + call.size] for call in probe.plan]
        pairs = zip(parts, probe.plan, strict=True)
        return torch.cat([self.logits(part, call.start, memory, last_rows(call)) for part, call in pairs])

    def logits(self, tokens: Sequence[int], start: int, memory: Sequence[Tensor], rows: Tensor) -> Tensor:
        """Logits [K, V] of some rows of a call."""
        places = torch.arange(start, start + len(tokens))
        outputs: Any = self._forward((torch.tensor([list(tokens)]), places, *memory, rows))
        logits: Tensor = outputs[0][0].float().clone()
        return logits
