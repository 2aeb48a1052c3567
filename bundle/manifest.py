"""The manifest: everything about a bundle that a person, an app or a benchmark needs to know.

Figures that cannot be expressed in JSON (infinite, undefined) are null. Times and host facts live under ``build``, the
one part that may differ between two exports of the same input with the same flags on the same machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS, AudioLanguageInfo
from edgec.bundle.checkpoint_matrices import CheckpointMatrix, Fate, FateShare
from edgec.bundle.decoder_numbers import DecoderNumbers
from edgec.bundle.entry_points import (
    ENCODER_DECODER_METHODS,
    STATIC_ENCODER_DECODER_METHODS,
    STATIC_VISION_LANGUAGE_METHODS,
    VISION_LANGUAGE_METHODS,
    EncoderDecoderInfo,
    Limits,
    MethodInfo,
    StateInfo,
    VisionLanguageInfo,
    memory_names,
    source_memory,
)
from edgec.bundle.findings import Delegation, DeviceCheck, LintFinding, Rung
from edgec.bundle.input_preparation import InputPreparation
from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.bundle.part import JsonCount, JsonPart, JsonSize, Sha256
from edgec.bundle.predictor import DRAFT, PredictorInfo
from edgec.bundle.schemas import SCHEMA_NAME
from edgec.bundle.sentence_prompts import SentencePrompts
from edgec.bundle.shipped_adapters import ShippedAdapter
from edgec.bundle.tried_recipe import TriedRecipe, tried_line

SCHEMA_VERSION = 3
# A part of the manifest, the kind of model that has it, and its methods, where shapes vary and where they are fixed.
_METHODS: Mapping[str, tuple[str, Sequence[tuple[str, ...]]]] = {
    "encoder_decoder": ("an encoder-decoder", [ENCODER_DECODER_METHODS, STATIC_ENCODER_DECODER_METHODS]),
    "vision_language": ("a vision-language model", [VISION_LANGUAGE_METHODS, STATIC_VISION_LANGUAGE_METHODS]),
    "audio_language": ("a speech-language model", [AUDIO_LANGUAGE_METHODS]),
}
SchemaName = Annotated[str, Field(pattern=f"^{SCHEMA_NAME.pattern}$")]


class ModelInfo(JsonPart):
    """Where the model came from. ``trained`` is False for random weights; ``numbers``: of a decoder."""

    name: str
    source: str
    revision: str | None = None
    family: str
    task: str = "text-generation"
    licence: str | None = None
    parameters: JsonCount
    layers: JsonSize | None = None
    vocab_size: JsonSize | None = None
    trained: bool = True
    # Left out where there are none, so that the bundles of other models stay as they were written.
    numbers: DecoderNumbers | None = Field(default=None, exclude_if=lambda value: value is None)


class PrefixInfo(JsonPart):
    """A system prompt whose KV state was computed at export.

    ``form``: ``chat`` (the system message of a conversation) or ``text`` (how a prompt begins); ``text`` and ``state``
    are files of the bundle; ``fingerprint``: sha256 over everything that the state depends on.
    """

    form: Literal["chat", "text"]
    tokens: JsonCount
    bytes: JsonCount
    text: str
    state: str
    fingerprint: str


class PassInfo(JsonPart):
    """One graph rewrite and what it did."""

    name: str
    effect: Literal["exact", "approximate", "semantic"]
    options: dict[str, Any] = Field(default={})
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int


class LedgerRow(JsonPart):
    """The storage of one tensor of the artifact.

    ``bits``: container bits per value; ``information_bits``: bits that carry meaning; ``bytes``: of all copies, scales
    included; ``reason``: why there is more than one copy; ``active``: the share (0..1) that one token reads; ``found``,
    ``fate``: of a matrix that a quantised checkpoint stores as integers, or of its scales: its form there, and what
    became of it.
    """

    name: str
    dtype: str
    values: int
    bits: float
    information_bits: float
    copies: int
    bytes: int
    reason: str = ""
    active: float = 1.0
    found: str = Field(default="", exclude_if=lambda value: not value)
    fate: Fate | None = Field(default=None, exclude_if=lambda value: not value)


class Ledger(JsonPart):
    """What the artifact's size is made of; ``overhead_reasons`` explains bytes beyond 5 % over ``weight_bytes``.

    ``active_bytes``: of the tensors that one token reads: chosen experts, one row of a table; None in older bundles.
    ``fates``: what became of how much of a quantised checkpoint; empty for one in floats, and in older bundles.
    """

    artifact_bytes: int
    weight_bytes: int
    program_bytes: int
    rows: list[LedgerRow]
    overhead_reasons: list[str] = Field(default=[])
    active_bytes: int | None = None
    fates: list[FateShare] = Field(default=[], exclude_if=lambda value: not value)


class Runtime(JsonPart):
    """What must be present where the artifact runs."""

    name: str
    version: str
    backends: list[str]
    operators: list[str]


class FileInfo(JsonPart):
    """A file of the bundle, relative to its folder, with forward slashes."""

    path: str
    bytes: JsonCount
    sha256: Sha256


class TradeOffPoint(JsonPart):
    """Bits per weight of the linear layers, and the divergence that goes with them, nats per token.

    ``expected_kl``: from the layers' sensitivities, as if they added up; ``measured_kl``: on held-out calibration text.
    """

    bits: float
    expected_kl: float
    measured_kl: float


class CalibrationText(JsonPart):
    """The text that weights were calibrated on: a file's, or one that the export made.

    ``file``: its name, where one was given; ``tokens``: of all of it; ``written``: of them, those that the model wrote
    (the beginnings it was given included), ``built_in``: those of edgec's own text; ``notice``: why there is less than
    usual.
    """

    file: str = ""
    tokens: JsonCount
    written: JsonCount = 0
    built_in: JsonCount = 0
    notice: str = ""

    def __str__(self) -> str:
        """In words, for reports."""
        if self.file:
            return f"{self.tokens:,} tokens of {self.file}"
        written = f"{self.written:,} tokens that the model wrote" if self.written else ""
        own = f"{self.built_in:,} built-in {'ones' if written else 'tokens'}" if self.built_in else ""
        return "; ".join(filter(None, [" and ".join(filter(None, [written, own])), self.notice]))


class BitSearch(JsonPart):
    """How the bits of the linear layers were chosen; the recipe's rules hold the result.

    ``bits``: reached, scales and tables included; ``tokens``: looked at to choose, ``held_out_tokens``: to measure.
    """

    target_bits: float
    bits: float
    tokens: int
    held_out_tokens: int
    curve: list[TradeOffPoint]
    layers: dict[str, str]


class MoreBits(JsonPart):
    """Which linear layers have more bits than the recipe gives them, so that the quality asked for holds.

    ``matrices``: of all such layers; ``layers``: the wider ones and how they are stored; ``widths``: how many have how
    many bits; KL in nats, before and with them; ``bytes_share``: what they add to the artifact, of its size without
    them; ``missed_budget``: the KL that was wanted, where even the most bits miss it.
    """

    matrices: int
    layers: dict[str, str]
    widths: dict[int, int]
    kl_before: float
    kl_after: float
    bytes_share: float
    missed_budget: float | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def line(self) -> str:
        """All of it in a line: ``9 of 210 matrices in 8 bits: KL 0.31 -> 0.11, +6 % bytes``."""
        parts = [f"{count} in {bits} bits" for bits, count in sorted(self.widths.items())]
        if len(self.widths) == 1:
            ((bits, count),) = self.widths.items()
            parts = [f"{count} of {self.matrices} matrices in {bits} bits"]
        elif parts:
            parts[0] = f"of {self.matrices} matrices {parts[0]}"
        told = f"{', '.join(parts)}: KL {self.kl_before:.2g} -> {self.kl_after:.2g}, {self.bytes_share:+.0%} bytes"
        told = told.replace("%", " %")
        if self.missed_budget is None:
            return told
        return f"{told}; over the {self.missed_budget:g} that was wanted, and the most bits that this target holds"


class Build(JsonPart):
    """The only part that may differ between two otherwise identical exports.

    ``not_emulated``: why the phone's runner did not execute the artifact under an emulator; empty where it did, and
    where there is nothing for it to execute.
    """

    created: str
    seconds: dict[str, float] = Field(default={})
    peak_bytes: int | None = None
    host: dict[str, str] = Field(default={})
    # Left out where it is empty, so that the bundles of other targets stay as they were written.
    not_emulated: str = Field(default="", exclude_if=lambda value: not value)


class Manifest(JsonPart):
    """A bundle's description; ``digest`` is the sha256 of its canonical JSON with an empty ``digest``.

    ``layout``: by whose names the artifact's functions, inputs and outputs go, as ``bundle/layouts.py`` lists them.
    ``limits``: of a decoder; an encoder-decoder has its own in ``encoder_decoder``, a vision-language model in
    ``vision_language``, a speech-language model in ``audio_language``, other models have none.
    ``sentence_encoder``: what goes before the texts of a sentence encoder; None where nothing does.
    ``schemas``: the names of the JSON Schemas, regular expressions and grammars whose files lie in ``schemas/``.
    ``adapters``: those that the artifact has functions for; ``methods`` lists the functions of the model as it is, and
    under an adapter they have the same inputs, outputs and states.
    ``predictor``: of further tokens, the method draft of a decoder; its states are not among ``states``.
    ``calibration``: the text that weights were calibrated on; None where none was used.
    ``context_note``: how positions are rotated, where that depends on the context.
    ``checkpoint``: what became of the matrices that a quantised checkpoint stores as integers.
    ``prepared``: how images and sounds become a module's inputs, as its factory declares it.
    ``judged_on``: the inputs on which the ladder compares a module, in words.
    ``wider_layers``: a module's layers with more bits than the recipe asks for, with their bytes, in words.
    ``tried_recipes``: default recipes with fewer bits whose budgets did not hold.
    ``target_choice``: why this target was chosen, where the user named a family of phones, and whether its kernels were
    replaced by standard ones.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    model: ModelInfo
    target: str
    target_choice: str = ""
    # Left out where it is empty, so that the bundles of other models stay as they were written.
    context_note: str = Field(default="", exclude_if=lambda value: not value)
    format: Literal["pte", "mlpackage", "aimodel", "onnx", "qnn", "gguf", "litertlm", "tflite"] = "pte"
    # Left out where it is edgec's own, likewise.
    layout: str = Field(default=DEFAULT_LAYOUT, exclude_if=lambda value: value == DEFAULT_LAYOUT)
    recipe: dict[str, Any]
    passes: list[PassInfo]
    methods: list[MethodInfo]
    states: list[StateInfo] = Field(default=[])
    limits: Limits | None = None
    encoder_decoder: EncoderDecoderInfo | None = None
    # Left out where there is none, so that the bundles of other models stay as they were written.
    vision_language: VisionLanguageInfo | None = Field(default=None, exclude_if=lambda value: value is None)
    audio_language: AudioLanguageInfo | None = Field(default=None, exclude_if=lambda value: value is None)
    sentence_encoder: SentencePrompts | None = Field(default=None, exclude_if=lambda value: value is None)
    # Left out where there is none, likewise.
    predictor: PredictorInfo | None = Field(default=None, exclude_if=lambda value: value is None)
    prefix: PrefixInfo | None = None
    # Left out where there are none, likewise.
    schemas: list[SchemaName] = Field(default=[], exclude_if=lambda value: not value)
    adapters: list[ShippedAdapter] = Field(default=[], exclude_if=lambda value: not value)
    parity: list[Rung]
    delegation: Delegation | None = None
    device_checks: list[DeviceCheck] = Field(default=[])
    lint: list[LintFinding] = Field(default=[])
    # Left out where there is none, likewise.
    calibration: CalibrationText | None = Field(default=None, exclude_if=lambda value: value is None)
    bit_search: BitSearch | None = None
    more_bits: MoreBits | None = Field(default=None, exclude_if=lambda value: value is None)
    prepared: dict[str, InputPreparation] = Field(default={}, exclude_if=lambda value: not value)
    judged_on: str = Field(default="", exclude_if=lambda value: not value)
    wider_layers: str = Field(default="", exclude_if=lambda value: not value)
    tried_recipes: list[TriedRecipe] = Field(default=[], exclude_if=lambda value: not value)
    # Left out where it is empty, so that the bundles of other models stay as they were written.
    checkpoint: list[CheckpointMatrix] = Field(default=[], exclude_if=lambda value: not value)
    ledger: Ledger | None = None
    runtime: Runtime
    tools: dict[str, str]
    artifact: str = "model.pte"
    files: list[FileInfo]
    build: Build
    excluded_from_identity: list[str] = Field(default=["build", "digest", "files[report.html]"])
    digest: str = ""

    @property
    def recipe_name(self) -> str:
        """The recipe's name, or ``unnamed``."""
        return str(self.recipe.get("name", "unnamed"))

    @property
    def bits_line(self) -> str:
        """Where more bits were spent than the recipe has, or than the first default had; else empty."""
        return self.more_bits.line if self.more_bits else tried_line(self.tried_recipes, self.recipe_name)

    def __repr__(self) -> str:
        return f"<edgec Manifest {self.name}: {self.recipe_name}, {self.target}, {self.format}>"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.layout not in LAYOUTS or self.format not in LAYOUTS[self.layout].formats:
            raise ValueError(f"a {self.format} has no layout {self.layout!r}")
        if self.prefix is not None and self.limits is None:
            raise ValueError("only a decoder, which has limits, has a prefix")
        if self.predictor is not None and not any(method.name == DRAFT for method in self.methods):
            raise ValueError(f"a model with a predictor has a method {DRAFT}")
        if len({adapter.name for adapter in self.adapters}) != len(self.adapters):
            raise ValueError("an adapter's name occurs twice")
        for part, (model, known) in _METHODS.items():
            if getattr(self, part) is not None and tuple(method.name for method in self.methods) not in known:
                raise ValueError(f"{model} has the methods {' or '.join(', '.join(names) for names in known)}")
        self._check_source_memory()
        textual = [method.name for method in self.methods[1:] if not method.reads("input_embeds")]
        if (self.vision_language or self.audio_language) and textual:
            raise ValueError(f"{textual[0]} of a model of images or audio has an input input_embeds, [1, S, width]")
        return self

    def _check_source_memory(self) -> None:
        """Refuse methods of fixed shapes that do not read what the encoder gives them, as it gives it."""
        names, reads = tuple(method.name for method in self.methods), self.encoder_decoder
        if reads is None or names != STATIC_ENCODER_DECODER_METHODS:
            return
        encode, cross, *decoder = self.methods
        length = reads.source_tokens or 0
        if [tensor.shape for tensor in encode.inputs] != [list(reads.source_shape(length))] * (2 if length else 1):
            raise ValueError("encode of an encoder-decoder reads a source, and of a text which tokens are padding")
        if len(encode.outputs) != 1 or cross.inputs != encode.outputs:
            raise ValueError("cross of an encoder-decoder reads what encode gives")
        if tuple(tensor.name for tensor in cross.outputs) != memory_names(len(cross.outputs) // 2):
            raise ValueError("cross of an encoder-decoder gives each layer's key and value")
        own, given = {"tokens", "start", "last", *(state.name for state in self.states)}, source_memory(self.methods)
        made = {tensor.name: tensor for tensor in (*encode.inputs, *cross.outputs)}
        for method in decoder:
            read = [tensor for tensor in method.inputs if tensor.name not in own]
            if [tensor.name for tensor in read] != given or any(made[tensor.name] != tensor for tensor in read):
                raise ValueError(
                    f"{method.name} of an encoder-decoder reads what encode and cross give, as they give it"
                )

    @property
    def writing_limits(self) -> Limits | None:
        """The limits of the method that writes text, where there is one."""
        part = self.encoder_decoder or self.vision_language or self.audio_language
        return self.limits if part is None else part.limits
