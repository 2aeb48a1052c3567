"""Run any form of an encoder-decoder on the same sources and tokens: the sources of ``encode``, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.manifest import ENCODER_DECODER_METHODS
from edgec.exporter.capture.encoder_decoder import decode, remembering_cache
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.parity.probe import Probe
from edgec.exporter.sources.encoder_decoder import Source
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights import Weights
from edgec.ir.call_plan import call_inputs, compared_positions, last_rows
from edgec.ir.graph_run import first_output, run_calls
from edgec.ir.program import Dynamic, Program

# Lengths of the sources that are read: not a multiple of any kernel's tile, then one that is shorter.
_LENGTHS = (37, 5)


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
    """Choose what the encoder reads: parts of the probe's text, or seeded features of the encoder's own shape."""
    varying = next((d for d in reads.shape if isinstance(d, Dynamic)), None)
    if varying is None:
        generator = torch.Generator().manual_seed(0)
        return SourceProbe(reads.name, (torch.randn(*reads.sizes(0), generator=generator),))
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

    def of(self, method: str) -> Tensor:
        """The outputs of a method, as ``run_method`` gives them."""
        return {
            "encode": lambda: flatten_outputs(self.states),
            "cross": lambda: flatten_outputs(self.memory),
            "forward": lambda: self.logits,
        }[method]()

    def sizes(self, method: str) -> list[int]:
        """The number of values of each output of ``encode`` or ``cross``."""
        return [value.numel() for value in {"encode": self.states, "cross": self.memory}[method]]

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
    """Run transformers' own model in float32 over the weights as they are stored, without its own cache."""
    model = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    tokens, rows = torch.tensor([list(probe.tokens)]), compared_positions(probe.plan)
    with torch.no_grad(), InFloat32(None):
        states = tuple(model.get_encoder()(**{sources.name: each}).last_hidden_state for each in sources.sources)
        cache = remembering_cache()
        decode(model, tokens[:, :2], states[0], cache)
        kept: Mapping[int, tuple[Tensor, Tensor]] = cache.cross_attention_cache.kept
        memory = tuple(value.transpose(1, 2).contiguous() for layer in sorted(kept) for value in kept[layer])
        logits = decode(model, tokens, states[0])[0, rows]
    return EncoderDecoderReference(states, memory, logits.float())


def run_method(
    program: Program, name: str, probe: SourceProbe, reference: EncoderDecoderReference, decoder: Probe
) -> Tensor:
    """Run the Program of a method on what transformers' model gave the method before it."""
    with torch.no_grad():
        if name == "encode":
            return flatten_outputs([first_output(program.graph(each)) for each in probe.sources])
        if name == "cross":
            return flatten_outputs(program.graph(reference.states[0]))
        return _run_forward(program, decoder, reference.memory)


def _run_forward(program: Program, probe: Probe, memory: Sequence[Tensor]) -> Tensor:
    wanted = compared_positions(probe.plan)
    whole = (0, len(probe.tokens), torch.tensor(wanted))
    calls = [(call.start, call.size, last_rows(call)) for call in probe.plan] if program.interface.states else [whole]
    names = [tensor.name for tensor in program.interface.inputs if tensor.name.startswith("cross_")]
    given = dict(zip(names, memory, strict=True))
    outputs = run_calls(program, [call_inputs(program.interface, probe.tokens, *call, given) for call in calls])
    chosen = any(tensor.name == "logit_index" for tensor in program.interface.inputs)
    logits = [first_output(output)[0] for output in outputs]
    kept = logits if chosen else [each[rows] for each, (*_, rows) in zip(logits, calls, strict=True)]
    return torch.cat(kept).float()


class ExecutedEncoderDecoder:
    """The methods of an artifact in ExecuTorch's runtime, in this process."""

    def __init__(self, artifact: Path) -> None:
        """Load the artifact.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        self._encode, self._cross, self._forward = (TorchMethod(artifact, n) for n in ENCODER_DECODER_METHODS)

    def alone(self, method: str, probe: SourceProbe, reference: EncoderDecoderReference, decoder: Probe) -> Tensor:
        """A method's outputs on what transformers' model gave the method before it, as ``run_method``."""
        if method == "encode":
            return flatten_outputs([self._encode([each])[0] for each in probe.sources])
        if method == "cross":
            return flatten_outputs(self._cross([reference.states[0]]))
        return self.plan_logits(reference.memory, decoder)

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
