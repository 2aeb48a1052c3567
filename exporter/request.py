"""A resolved export: what every stage reads, and what each stage's result depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.backends.coreml.metadata import PackageCard
from edgec.backends.forms import Form, form_of
from edgec.bundle.entry_points import Limits
from edgec.bundle.manifest import BitSearch, CalibrationText, MoreBits
from edgec.bundle.prefix import Files, SystemPrompt
from edgec.bundle.tried_recipe import TriedRecipe
from edgec.devices.targets import Target
from edgec.exporter.package_card import package_card
from edgec.exporter.parity.emulated import Emulation
from edgec.exporter.parity.probe import Probe, make_probe
from edgec.exporter.parity.sample import sample_start
from edgec.exporter.provenance import tool_versions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.adapters import NamedLora
from edgec.exporter.resolve.limits import artifact_limits, slots
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.example_inputs import preprocessor_config
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.modules.given_inputs import GivenInputs
from edgec.exporter.stage_cache import StageCache
from edgec.ir.spec import ModelSpec

if TYPE_CHECKING:
    from edgec.exporter.sources.drafts.predictor import Predictor
    from edgec.passes.draft.head_weights import StoredHeads


@dataclass(frozen=True)
class ExportRequest:
    """One export, fully resolved.

    Attributes:
        source: the model.
        target: the phone, unit and format.
        recipe: resolved for the target's backend.
        context: positions the artifact serves; None for the recipe's or the model's own number.
        inputs: the user's own inputs for the parity ladder and calibration of a module, or None.
        text: the user's own text for the parity ladder, or None.
        tokenizer: transformers tokenizer, or None.
        draft_heads: heads that guess further tokens, or None.
        predictor: a predictor of further tokens, where one is asked for.
        max_fallback: largest share of the arithmetic outside the accelerator, 0..1, or None.
        prompt: the system prompt to ship, or None.
        schemas: the files of the schemas to ship, by their path in the bundle. Stages do not depend on them.
        calibration: tokens of the text that weights are calibrated on; may be empty.
        calibration_text: which text that is, for reports; None where there is none. Stages do not depend on it.
        bit_search: how the bits of layers were chosen, if they were searched for.
        more_bits: which layers were given more bits than the recipe has. Stages depend on the recipe's rules.
        further_recipes: those with more bits that follow where the recipe, a default, misses its budget. Stages depend
            on the one that is tried.
        tried: the defaults that missed theirs. Stages do not depend on it.
        loras: the adapters that the artifact has functions for.
        spends_bits: a quality that is missed is answered by more bits. Stages do not depend on it.
        compare_layers: compare the artifact layer by layer even where its logits pass. Stages do not depend on it.
        loops: LSTM and GRU layers of a module call edgec's kernels: on this machine, or because they were asked for.
        emulation: whether the phone's runner executes the artifact under an emulator. Stages do not depend on it.
    """

    source: ModelSource
    target: Target
    recipe: Recipe
    context: int | None = None
    inputs: GivenInputs | None = None
    text: str | None = None
    tokenizer: Any = field(default=None, compare=False)
    max_fallback: float | None = None
    prompt: SystemPrompt | None = None
    draft_heads: StoredHeads | None = None
    predictor: Predictor | None = None
    calibration: tuple[int, ...] = ()
    calibration_text: CalibrationText | None = None
    bit_search: BitSearch | None = None
    more_bits: MoreBits | None = None
    further_recipes: tuple[Recipe, ...] = ()
    tried: tuple[TriedRecipe, ...] = ()
    schemas: Files = field(default_factory=dict, compare=False)
    loras: tuple[NamedLora, ...] = ()
    compare_layers: bool = False
    spends_bits: bool = False
    loops: bool = False
    emulation: Emulation = field(default_factory=Emulation)

    @property
    def form(self) -> Form:
        """The form of the target's artifact."""
        return form_of(self.target)

    @cached_property
    def spec(self) -> ModelSpec:
        """The decoder's shape."""
        return model_spec(self.source.config)

    @property
    def looks_ahead(self) -> bool:
        """Whether tokens of a prompt see others after themselves."""
        return self.source.vision is not None and self.source.vision.asked.ahead != "none"

    @cached_property
    def limits(self) -> Limits:
        """The context and sizes of calls that the artifact will serve."""
        return artifact_limits(self.spec, self.recipe, self.context, self.form, self.looks_ahead)

    @property
    def card(self) -> PackageCard:
        """What a Core ML package says of the model."""
        context = self.limits.context if self.source.kind == "decoder" else None
        return package_card(self.source, self.recipe.name, self.target.layout, context)

    @property
    def slots(self) -> int:
        """Positions that a static state holds; an encoder-decoder's at most those that the model has numbers for."""
        held = slots(self.limits, self.looks_ahead)
        return held if self.source.reads is None else min(held, self.spec.context)

    @cached_property
    def sample_start(self) -> tuple[int, ...]:
        """The tokens that the report's texts start with; empty where there will be none."""
        limits = self.limits
        if self.source.weights is None or not self.source.trained or not self.form.executed:
            return ()
        parameters = sum(self.source.weight_sizes)
        return sample_start(self.tokenizer, self.spec.vocab_size, parameters, limits.prefill_chunk)

    @cached_property
    def window(self) -> int:
        """The tokens that the longest sliding window and its sinks hold; 0 where the context has no more than that."""
        windows = [layer.window for layer in self.spec.layers if layer.window and layer.window < self.limits.context]
        return max(windows) + self.recipe.sink_tokens if windows else 0

    @cached_property
    def probe(self) -> Probe:
        """The tokens on which the parity ladder compares."""
        limits, window = self.limits, self.window
        sizes = (self.spec.vocab_size, limits.context, limits.prefill_chunk, limits.logit_rows)
        # Some encoder-decoders (M2M-100) give padding a position that no other token has; a text has no padding.
        padding = self.source.config.get("pad_token_id") if self.source.kind == "encoder-decoder" else None
        return make_probe(self.tokenizer, *sizes, self.text, window=window, static=self.form.static, padding=padding)


def request_inputs(request: ExportRequest, cache: StageCache) -> dict[str, Any]:
    """Everything in a request that its stages depend on, as plain data; each stage adds a digest of its own source."""
    source = request.source
    return {
        "files": sorted([_place(file, source.path), cache.file_fingerprint(file)] for file in source.files),
        "config": source.config,
        "preprocessor": preprocessor_config(source.path),
        "source": source.source if source.factory is not None and source.weights is None else "",
        "trained": source.trained,
        "seed": source.seed,
        "task": source.task,
        "tile": list(source.vision.shape) if source.vision else None,
        "window": source.audio.sound.model_dump() if source.audio else None,
        "backend": request.target.backend,
        "format": request.target.format,
        "layout": request.target.layout,
        "card": asdict(request.card) if request.form.described else None,
        "processor": request.target.processor if request.form.laid_out else None,
        "chip": request.target.soc_model if request.form.one_chip else None,
        "recipe": request.recipe.to_json(),
        "loops": request.loops,
        "context": request.context,
        "inputs": request.inputs.digest if request.inputs else None,
        "text": request.text,
        "calibration": list(request.calibration),
        "draft_heads": [cache.file_fingerprint(file) for file in _draft_files(request)],
        "predictor": request.predictor.name if request.predictor is not None else None,
        "adapters": [[lora.name, lora.digest, lora.scales] for lora in request.loras],
        "tools": tool_versions(request.form.tools),
    }


def _draft_files(request: ExportRequest) -> tuple[Path, ...]:
    given = request.draft_heads or request.predictor
    return () if given is None else given.files


def _place(file: Path, folder: Path | None) -> str:
    """A file's path in the model's folder, which holds several of one name; elsewhere its name."""
    return str(file.relative_to(folder)) if folder is not None and file.is_relative_to(folder) else file.name
