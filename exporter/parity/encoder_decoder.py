"""Run any form of an encoder-decoder on the same sources and tokens: the sources of ``encode``, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.backends.forms import Form
from edgec.backends.onnx.methods import TensorFunction
from edgec.backends.static_artifact import backend_of
from edgec.bundle.entry_points import ENCODER_DECODER_METHODS, memory_names
from edgec.errors import InputError
from edgec.exporter.capture.encoder_decoder import decode, encoded, memory_of
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.exporter.parity.probed_method import Executed, ProbedMethod
from edgec.exporter.sources.encoders.encoder_decoder import Source, fixed_source
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.call_plan import Call, compared_positions, last_rows
from edgec.ir.memory_inputs import USED, RememberingMethods, is_memory
from edgec.ir.program import Dynamic, Interface
from edgec.ir.static_methods import Methods, static_logits
from edgec.runtime_py.encoder_decoder.fixed_source import filled
from edgec.runtime_py.engines.simulated import open_function

# Lengths of the sources that are read: not a multiple of any kernel's tile, then one that is shorter.
_LENGTHS = (37, 5)
# Of a waveform: not a multiple of any stride.
_SAMPLES = 9_001
# The share of the largest state by which sums of more numbers may move one in float32: measured 3e-7 for a tiny T5.
_MOVED = 1e-3


@dataclass(frozen=True)
class SourceProbe:
    """Sources on which encoders are compared; the decoder writes after the first.

    Attributes:
        name: the input's name.
        sources: int64 [1, T] each, or float32 of the encoder's fixed shape.
        length: of a text where shapes are fixed, which sources are filled up to; 0: they are read as they are.
    """

    name: str
    sources: tuple[Tensor, ...]
    length: int = 0

    def inputs(self, source: Tensor) -> tuple[Tensor, ...]:
        """What ``encode`` takes of a source: where texts are filled up, also which of its tokens are padding."""
        if not self.length:
            return (source,)
        text, used = filled(source.numpy(), self.length)
        return torch.from_numpy(text), torch.from_numpy(used)

    @property
    def used(self) -> tuple[Tensor, ...]:
        """What the decoder reads beside keys and values, after the first source."""
        return self.inputs(self.sources[0])[1:]


def source_probe(reads: Source, probe: Probe, vocab_size: int, *, fixed: bool = False) -> SourceProbe:
    """Choose what the encoder reads: parts of the probe's text, else seeded values of the encoder's own shape.

    Where the length of a waveform varies, a source of many states comes first, then the shortest.
    """
    varying = next((d for d in reads.shape if isinstance(d, Dynamic)), None)
    if varying is None or not reads.is_text:
        generator = torch.Generator().manual_seed(0)
        sizes = [reads.sizes(length) for length in ((_SAMPLES, 0) if varying else (0,))]
        return SourceProbe(reads.name, tuple(torch.randn(*each, generator=generator) for each in sizes))
    longest: Any = fixed_source(reads).shape[-1] if fixed else 0
    lengths = sorted({min(length, longest or varying.high) for length in _LENGTHS}, reverse=True)
    tokens = [probe.tokens[i % len(probe.tokens)] % vocab_size for i in range(1, lengths[0] + 1)]
    return SourceProbe(reads.name, tuple(torch.tensor([tokens[-length:]]) for length in lengths), longest)


@dataclass(frozen=True)
class EncoderDecoderReference:
    """What transformers' own model computes: an encoder's states, a decoder's keys and values of them, its logits.

    Attributes:
        states: for each source, float32 [1, T, C]; of a text that is filled up, also those of its padding.
        memory: of the first source, float32 [1, T, G, D], or by head [1, G, T, D]: key and value of each layer in turn.
        logits: float32 [P, V] at the probe's compared positions, after the first source without padding.
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
    source: ModelSource, weights: Weights, sources: SourceProbe, probe: Probe, *, by_head: bool = False
) -> EncoderDecoderReference:
    """Run transformers' own model in float32 over the weights as they are stored, without its own cache.

    Args:
        source: the model.
        weights: by the model's own parameter names.
        sources: what its encoder reads.
        probe: what its decoder writes.
        by_head: keys and values are [1, G, T, D], as methods of fixed shapes take them.

    Raises:
        InputError: E534, padding after a text changes what the encoder makes of it; E769, the
            model's code fails.
    """
    model = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    tokens, rows = torch.tensor([list(probe.tokens)]), compared_positions(probe.plan)
    with own_code(model, "a source and a text"), torch.no_grad(), InFloat32(None):
        states = tuple(encoded(model, sources.name, *sources.inputs(each)) for each in sources.sources)
        memory = tuple(value.contiguous() for value in memory_of(model, tokens[:, :2], states[0], by_head))
        read = encoded(model, sources.name, sources.sources[0]) if sources.length else states[0]
        refuse_seen_padding(states[0], read)
        logits = decode(model, tokens, read)[0, rows]
    return EncoderDecoderReference(states, memory, logits.float())


def refuse_seen_padding(states: Tensor, read: Tensor) -> None:
    """Refuse an encoder that cannot be told what is padding: its states [1, T, C] are not those of the text alone."""
    moved = float((states[:, : read.shape[1]] - read).abs().max())
    if not moved <= _MOVED * float(read.abs().max()):
        raise InputError(
            what="an encoder-decoder cannot be exported this way",
            where="--target",
            why="its methods have fixed shapes, and padding after a text changes what its encoder makes of the text",
            fix="export for a CPU with edgec's kernels (--target host or android-cpu)",
            code="E534",
        )


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
        read = [ProbeCall(list(self.sources.inputs(each))) for each in self.sources.sources]
        crossed = [ProbeCall([states[0]])]
        encode, cross, forward = ENCODER_DECODER_METHODS
        return {
            encode: ProbedMethod(encode, lambda _: read, flatten_outputs(states), forms_of(states)),
            cross: ProbedMethod(cross, lambda _: crossed, flatten_outputs(memory), forms_of(memory), layer_outputs=2),
            forward: ProbedMethod(forward, self._text_calls, self.reference.logits),
        }

    def _text_calls(self, interface: Interface) -> Sequence[ProbeCall]:
        names = [tensor.name for tensor in interface.inputs if is_memory(tensor.name)]
        given = dict(zip(names, self.memory, strict=True))
        return text_calls(interface, self.text.tokens, self.text.plan, lambda start, size: given)

    @property
    def memory(self) -> tuple[Tensor, ...]:
        """What the decoder knows of the first source, by transformers' own model."""
        return *self.reference.memory, *self.sources.used

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the reference by name, to be stored with the rungs."""
        return self.reference.tensors()

    def execute(self, artifact: Path) -> Executed:
        """Execute the methods of an artifact, each alone, and all of them from the first source to the logits."""
        return self.executed(ExecutedEncoderDecoder.of_program(artifact))

    def executed(self, methods: ExecutedEncoderDecoder) -> Executed:
        """What executed methods answer, each alone, and all of them from the first source to the logits."""
        inputs = [self.sources.inputs(each) for each in self.sources.sources]
        alone = (
            flatten_outputs([methods.encode(each)[0] for each in inputs]),
            flatten_outputs(methods.cross([self.reference.states[0]])),
            methods.plan_logits(self.memory, self.text),
        )
        whole = methods.plan_logits(methods.memory(inputs[0]), self.text)
        return Executed(dict(zip(ENCODER_DECODER_METHODS, alone, strict=True)), whole)


# Tokens of a text, a call that feeds some of them, what is known of the source -> logits [K, V] of its last rows.
WriteAfter = Callable[[Sequence[int], Call, Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class ExecutedEncoderDecoder:
    """The methods of an artifact, executed on this machine.

    Attributes:
        encode: as a function of its inputs in order.
        cross: likewise.
        written: the decoder.
    """

    encode: TensorFunction
    cross: TensorFunction
    written: WriteAfter

    @classmethod
    def of_program(cls, artifact: Path) -> ExecutedEncoderDecoder:
        """Load an artifact into ExecuTorch's runtime, in this process.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        encode, cross, forward = (TorchMethod(artifact, name) for name in ENCODER_DECODER_METHODS)
        return cls(encode, cross, partial(_forward_logits, forward))

    @classmethod
    def of_form(cls, artifact: Path, form: Form) -> ExecutedEncoderDecoder:
        """Load an artifact of any form; one of fixed shapes by what executes it here."""
        if not form.static:
            return cls.of_program(artifact)
        encode, cross = (open_function(form.backends[0], artifact, name) for name in ENCODER_DECODER_METHODS[:2])
        return cls(encode, cross, partial(_static_logits, backend_of(form.module).execute(artifact)))

    def memory(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the decoder knows of a source, from what ``encode`` takes of it."""
        with torch.no_grad():
            return [*self.cross([self.encode(list(inputs))[0]]), *inputs[1:]]

    def plan_logits(self, memory: Sequence[Tensor], probe: Probe) -> Tensor:
        """Logits [P, V] at the probe's compared positions, after a source."""
        with torch.no_grad():
            return torch.cat([self.written(probe.tokens, call, memory) for call in probe.plan])


def _forward_logits(forward: TensorFunction, tokens: Sequence[int], call: Call, memory: Sequence[Tensor]) -> Tensor:
    places = torch.arange(call.start, call.start + call.size)
    part = torch.tensor([list(tokens[call.start : call.start + call.size])])
    logits: Tensor = forward((part, places, *memory, last_rows(call)))[0][0].float().clone()
    return logits


def _static_logits(methods: Methods, tokens: Sequence[int], call: Call, memory: Sequence[Tensor]) -> Tensor:
    return static_logits(RememberingMethods(methods, named_memory(memory)), tokens, call).unsqueeze(0)


def named_memory(memory: Sequence[Tensor]) -> dict[str, Tensor]:
    """What a decoder knows of a source, by the names of its inputs: keys and values in pairs, then perhaps padding."""
    return dict(zip((*memory_names(len(memory) // 2), USED), memory, strict=False))
