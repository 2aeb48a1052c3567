"""Make the files and the manifest of a bundle from a verified artifact."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from edgec.backends.forms import Form
from edgec.bundle.adapter_targets import TARGETS
from edgec.bundle.delegates import named_delegates
from edgec.bundle.encoding import decode_tokens
from edgec.bundle.entry_points import Limits
from edgec.bundle.findings import DeviceCheck
from edgec.bundle.golden import Golden, OutputVector, golden_bytes, output_vector
from edgec.bundle.golden_texts import chat_vector, chat_vectors, text_vectors
from edgec.bundle.manifest import Build, Ledger, Manifest, ModelInfo, Runtime
from edgec.bundle.prefix import Files
from edgec.bundle.schemas import schema_names
from edgec.exporter.assemble.audio_language import audio_language_info, audio_vector
from edgec.exporter.assemble.brief_speed import brief_speed
from edgec.exporter.assemble.decoder_numbers import decoder_numbers
from edgec.exporter.assemble.encoder_decoder import encoder_decoder_info, written_golden
from edgec.exporter.assemble.estimates import estimates
from edgec.exporter.assemble.function_vector import module_vector
from edgec.exporter.assemble.genai import genai_files
from edgec.exporter.assemble.language_bundle import language_bundle
from edgec.exporter.assemble.ledger import WeightRecord, check_ledger, ledger_of
from edgec.exporter.assemble.ledger_fates import with_fates
from edgec.exporter.assemble.tolerances import golden_tolerances
from edgec.exporter.assemble.vision_language import image_files, seen_golden, vision_language_info
from edgec.exporter.bundled_tokenizer import tokenizer_contents
from edgec.exporter.parity.sample import greedy
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.provenance import tool_versions
from edgec.exporter.recipes.text import recipe_text
from edgec.exporter.report.page import render_report
from edgec.exporter.report.sections import ReportSamples
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.limits import context_note
from edgec.exporter.sources.multimodal.sound_template import template_file
from edgec.exporter.stage_cache import StageCache
from edgec.exporter.stages.adapted_methods import shipped_adapters
from edgec.exporter.stages.artifact import artifact_layout, step_of
from edgec.exporter.stages.device_checks import artifact_checks
from edgec.exporter.stages.prefix import with_prefix
from edgec.memory_use import peak_bytes
from edgec.runtime_py.decoding.text_stream import streamed_text
from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.trial import note_executed

_GOLDEN_PROMPT, _GOLDEN_TOKENS = 12, 8


def bundle_contents(
    request: ExportRequest,
    compiled: CompiledModel,
    name: str,
    seconds: Mapping[str, float],
    cache: StageCache,
    target_choice: str = "",
) -> tuple[Manifest, Files]:
    """The manifest without its file list, and all other files; ``target_choice``: why this target was chosen.

    Raises:
        BudgetError: E210, the artifact is larger than its bits explain; E201, the state of a system prompt differs.
    """
    ledger = size_ledger(compiled, request.form)
    manifest = _manifest(request, compiled, name, ledger, seconds)
    checks = _device_checks(request, compiled)
    facts: dict[str, Any] = {
        "target_choice": target_choice,
        "device_checks": checks,
        "bit_search": request.bit_search,
    }
    facts["judged_on"], facts["wider_layers"] = compiled.judged_on, compiled.wider
    facts["prepared"] = dict(request.source.prepared)
    facts["calibration"] = request.calibration_text
    if request.more_bits:
        facts["more_bits"] = request.more_bits
    if request.tried:
        facts["tried_recipes"] = list(request.tried)
    if manifest.writing_limits:
        facts["context_note"] = context_note(request.spec, manifest.writing_limits.context)
    manifest = manifest.model_copy(update=facts)
    golden = _golden(request, compiled)
    if not request.form.static:
        note_executed(cache.file_fingerprint(compiled.artifact), choose_engine(()))
    files: Files = {
        **artifact_files(compiled.artifact),
        "golden.json": golden_bytes(golden),
        **tokenizer_contents(request.source.tokenizer_files, request.tokenizer),
        **template_file(request.tokenizer, request.source.audio),
        **image_files(request, manifest.vision_language),
        **_generation_config(request),
        **_adapter_targets(compiled),
        **language_bundle(request),
        **genai_files(request, compiled.facts, compiled.artifact),
        **request.schemas,
        # A bit search's recipe, to repeat the export without searching.
        **({"recipe.toml": recipe_text(request.recipe).encode()} if request.bit_search or request.more_bits else {}),
    }
    manifest, files = with_prefix(manifest, files, request, cache, compiled.noise)
    tokenizer = request.tokenizer
    decode = None if tokenizer is None else lambda ids: decode_tokens(tokenizer, ids)
    speed = _speed(request, compiled)
    report = render_report(manifest, speed, compiled.said, decode, compiled.sample, estimates(request))
    return manifest, {**files, "report.html": report.encode(errors="replace")}


def _speed(request: ExportRequest, compiled: CompiledModel) -> tuple[ReportSamples, ...]:
    """How fast a decoder's .pte for this machine is, for the report; an ONNX file of it is another runtime's."""
    limits = compiled.facts.limits
    own = request.target.name == "host" and not request.form.static
    if not own or request.source.kind != "decoder" or limits is None:
        return ()
    measured = brief_speed(compiled.artifact, limits, tuple(compiled.facts.operators))
    return () if measured is None else (measured,)


def artifact_files(artifact: Path) -> Files:
    """The artifact's file, or the files of its folder, by their path in the bundle."""
    if artifact.is_file():
        return {artifact.name: artifact}
    inside = sorted(path for path in artifact.rglob("*") if path.is_file())
    return {f"{artifact.name}/{path.relative_to(artifact).as_posix()}": path for path in inside}


def size_ledger(compiled: CompiledModel, form: Form) -> Ledger:
    """Account for the artifact's bytes, and check the result.

    Raises:
        BudgetError: E210.
    """
    records = [
        WeightRecord(
            w.name.removeprefix("decoder."),
            w.dtype,
            tuple(w.shape),
            w.container_bits,
            w.information_bits,
            w.bytes,
            active=w.active,
        )
        for w in compiled.facts.weights
    ]
    ledger = ledger_of(artifact_layout(compiled.artifact, form), records)
    check_ledger(ledger, compiled.facts.expected_weight_bytes)
    return with_fates(ledger, compiled.stored)


def _manifest(
    request: ExportRequest, compiled: CompiledModel, name: str, ledger: Ledger, seconds: Mapping[str, float]
) -> Manifest:
    facts = compiled.facts
    manifest = Manifest(
        name=_utf8(name),
        model=_model(request),
        target=request.target.name,
        recipe=request.recipe.to_json(),
        passes=facts.passes,
        methods=facts.methods,
        states=facts.states,
        predictor=facts.predictor,
        lint=facts.lint,
        limits=facts.limits,
        encoder_decoder=encoder_decoder_info(request),
        vision_language=vision_language_info(request, compiled),
        audio_language=audio_language_info(request, compiled),
        sentence_encoder=request.source.prompts,
        schemas=schema_names(request.schemas),
        adapters=shipped_adapters(request),
        parity=list(compiled.rungs),
        delegation=facts.delegation,
        checkpoint=list(compiled.stored),
        ledger=ledger,
        artifact=request.form.artifact,
        runtime=_runtime(compiled, request.form),
        tools=tool_versions(request.form.tools),
        files=[],
        build=_build(request, seconds),
    )
    return manifest.model_copy(update={"format": request.target.format, "layout": request.target.layout})


def _model(request: ExportRequest) -> ModelInfo:
    source, decoder = request.source, request.source.kind != "module"
    senses = source.vision or source.audio
    return ModelInfo(
        name=_utf8(source.name),
        source=_utf8(source.source),
        revision=source.revision,
        family=senses.family if senses else str(source.config.get("model_type", "module")),
        task=source.task or "module",
        licence=source.licence,
        parameters=sum(source.weight_sizes),
        layers=len(request.spec.layers) if decoder else None,
        vocab_size=request.spec.vocab_size if decoder else None,
        trained=source.trained,
        numbers=decoder_numbers(request),
    )


def _utf8(text: str) -> str:
    """A name or path that the manifest can hold: bytes that are not UTF-8 become escapes."""
    return text.encode(errors="backslashreplace").decode()


def _runtime(compiled: CompiledModel, form: Form) -> Runtime:
    version = tool_versions(form.tools)[form.runtime]
    named = named_delegates(compiled.artifact) if form.laid_out else ()
    backends = sorted(named) or list(form.backends)
    return Runtime(name=form.runtime, version=version, backends=backends, operators=compiled.facts.operators)


def _build(request: ExportRequest, seconds: Mapping[str, float]) -> Build:
    host = {"machine": platform.machine(), "system": platform.system(), "python": platform.python_version()}
    created, skipped = datetime.now(UTC).isoformat(timespec="seconds"), request.emulation.why_not
    return Build(created=created, seconds=dict(seconds), peak_bytes=peak_bytes(), host=host, not_emulated=skipped)


def _device_checks(request: ExportRequest, compiled: CompiledModel) -> list[DeviceCheck]:
    """The checks on a Mac, or that there is no Mac."""
    states = [state.name for state in compiled.facts.states]
    tokens = request.probe.tokens if compiled.facts.limits is not None else ()
    return artifact_checks(compiled.artifact, request.target, compiled.facts.methods, states, tokens)


def _generation_config(request: ExportRequest) -> Files:
    config = request.source.generation_config
    return {"generation_config.json": json.dumps(config, indent=2, sort_keys=True).encode()} if config else {}


def _adapter_targets(compiled: CompiledModel) -> Files:
    targets = compiled.facts.adapter_targets
    return {TARGETS: targets.model_dump_json(indent=1).encode()} if targets else {}


def _golden(request: ExportRequest, compiled: CompiledModel) -> Golden:
    tokenizer = request.tokenizer
    golden = _executed(request, compiled) if request.form.executed else Golden()
    if tokenizer is None:
        return golden
    texts, chats = text_vectors(tokenizer, streamed_text), chat_vectors(tokenizer)
    return golden.model_copy(update={"texts": texts, "chat": chat_vector(tokenizer), "chats": chats})


def _executed(request: ExportRequest, compiled: CompiledModel) -> Golden:
    """The golden vectors of the artifact."""
    if request.source.reads is not None:
        return written_golden(request, compiled.artifact, _GOLDEN_TOKENS)
    if request.source.vision is not None:
        return seen_golden(request, compiled, _GOLDEN_TOKENS)
    if request.source.audio is not None:
        return Golden(outputs=(audio_vector(request, compiled.artifact, _GOLDEN_TOKENS),))
    if compiled.facts.limits is None:
        return Golden(functions=(module_vector(compiled, request.form),))
    return Golden(outputs=(_greedy_vector(request, compiled.artifact, compiled.facts.limits),))


def _greedy_vector(request: ExportRequest, artifact: Path, limits: Limits) -> OutputVector:
    """A short greedy continuation that the artifact generated."""
    prompt = list(request.probe.tokens[: min(_GOLDEN_PROMPT, limits.prefill_chunk, limits.context - _GOLDEN_TOKENS)])
    tokens, rows = greedy(step_of(artifact, request.form), prompt, _GOLDEN_TOKENS)
    return output_vector(prompt, tokens, torch.stack(rows).numpy(), **golden_tolerances(request.form))
