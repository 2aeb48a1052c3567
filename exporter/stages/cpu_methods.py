"""Decoders and encoder-decoders lowered for a CPU: rewritten programs by method -> one .pte file and its facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from edgec.bundle.entry_points import FORWARD_ROWS, Limits
from edgec.bundle.generation_config import GenerationConfig
from edgec.bundle.predictor import DRAFT, PredictorInfo
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.drafts.predictor import is_predictors
from edgec.exporter.sources.hf_config import ENCODER_DECODER
from edgec.exporter.stages.adapter_targets import adapter_targets
from edgec.exporter.stages.compiled import ARTIFACT, Facts, method_info, passes_of, save_facts, state_info
from edgec.exporter.stages.weight_facts import expected_bytes, weight_facts
from edgec.ir.program import Program

if TYPE_CHECKING:
    from edgec.backends.cpu.linear.layout import BlockRows
    from edgec.backends.cpu.lower import Lowered
    from edgec.backends.cpu.text_runner import RunnerFacts
    from edgec.backends.static_artifact import LoweringProgress


def lower_to_folder(programs: Mapping[str, Program], request: ExportRequest, folder: Path, progress: Progress) -> None:
    """Lower programs to the methods of one artifact; leave it and its facts in ``folder``, as ``write_lowered``."""
    save_facts(folder, write_lowered(programs, request, folder, progress))


def write_lowered(programs: Mapping[str, Program], request: ExportRequest, folder: Path, progress: Progress) -> Facts:
    """Lower programs to the methods of one artifact, write it, and return its facts.

    Args:
        programs: by the methods' names.
        request: gives the kernels, the processor and, for a decoder of one method, the limits.
        folder: where the artifact goes.
        progress: told how far lowering is.
    """
    from edgec.backends.cpu.lower import lower_methods
    from edgec.exporter.parity.stored_weights import check_stored_weights

    progress.enter("lower")
    begins = {"lower": 0.0, "emit": 0.5}
    tell: LoweringProgress = lambda part, done, total: progress.step(begins[part] + 0.5 * done / total)  # noqa: E731
    with TemporaryDirectory(dir=folder) as shelf:
        lowered = lower_methods(programs, tell, block_rows(request), Path(shelf), runner_facts(request))
        with (folder / ARTIFACT).open("wb") as stream:
            lowered.write(stream)
    read_back = check_stored_weights(folder / ARTIFACT, programs, lowered.stored_by_method)
    kind = request.predictor.name if request.predictor is not None else ""
    facts = _facts(programs, lowered, request.limits if request.source.kind == "decoder" else None, kind)
    return facts.model_copy(update={"read_back": read_back})


def block_rows(request: ExportRequest) -> BlockRows | None:
    """The layout of matrices for edgec's linear kernels; None where the recipe asks for standard kernels."""
    from edgec.backends.cpu.linear.layout import BlockRows

    return BlockRows.of(request.target.processor) if request.recipe.kernels == "edgec" else None


def runner_facts(request: ExportRequest) -> RunnerFacts | None:
    """What ExecuTorch's runners are told of a decoder of text, or of text and images, or after features of sound.

    None: no runner takes such a model.
    """
    from edgec.backends.cpu.text_runner import RunnerFacts

    reads = request.source.reads
    hears = request.source.kind == ENCODER_DECODER and reads is not None and reads.sound is not None
    if not hears and request.source.kind not in ("decoder", "vision-language"):
        return None
    limits, begin = request.limits, getattr(request.tokenizer, "bos_token_id", None)
    ends = GenerationConfig.model_validate(request.source.generation_config).stop_tokens
    return RunnerFacts(limits.prefill_chunk, limits.context, request.spec.vocab_size, begin, tuple(ends))


def _facts(programs: Mapping[str, Program], lowered: Lowered, limits: Limits | None, kind: str) -> Facts:
    """The facts of an artifact; ``kind``: of its predictor, where it has one."""
    weights = {name: weight_facts(program, lowered.stored_by_method[name]) for name, program in programs.items()}
    expected = sum(expected_bytes(weights[name], program) for name, program in programs.items())
    if DRAFT in weights:
        shared = [fact for fact in weights[DRAFT] if not is_predictors(fact.name, kind)]
        expected -= sum(fact.bytes for fact in shared)
        weights[DRAFT] = [
            fact.model_copy(update={"name": f"{DRAFT}.{fact.name.removeprefix('decoder.')}", "active": 0.0})
            for fact in weights[DRAFT]
            if is_predictors(fact.name, kind)
        ]
    states = [state for name, program in programs.items() if name != DRAFT for state in program.interface.states]
    several = len(programs) > 1
    return Facts(
        passes=[info for name, program in programs.items() for info in passes_of(program, name if several else "")],
        methods=[method_info(program.interface, name) for name, program in programs.items()],
        states=[state_info(state, lowered.state_offsets.get(state.buffer)) for state in states],
        limits=limits,
        delegation=lowered.delegation,
        operators=list(lowered.operators),
        weights=[fact for facts in weights.values() for fact in facts],
        expected_weight_bytes=expected,
        predictor=_predictor_info(programs[DRAFT], lowered, kind) if DRAFT in programs else None,
        adapter_targets=adapter_targets(programs[FORWARD_ROWS], lowered.stored) if limits is not None else None,
    )


def _predictor_info(program: Program, lowered: Lowered, kind: str) -> PredictorInfo:
    assert program.spec is not None
    states = [state_info(state, lowered.state_offsets.get(state.buffer)) for state in program.interface.states]
    return PredictorInfo(name=kind, width=program.spec.hidden_size, states=states)
