"""Decoders as GGUF files, for llama.cpp: the graph's own integers under llama.cpp's names, and nothing lowered.

captured program -> passes without caches -> file -> every tensor read back        to the bit
                                                  -> the file as a MODEL, resolved and run as any other        logits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.backends.gguf.file import EXECUTED_BY, write_file
from edgec.bundle.checkpoint_matrices import CheckpointMatrix
from edgec.bundle.findings import Rung
from edgec.exporter.gguf_file.contents import WrittenTensor, most_common_type, written_tensors
from edgec.exporter.gguf_file.description import GgufDescription, describe_model, factors_tensor
from edgec.exporter.parity.ladder import FLOAT_LOWERING, Stage, lowering_rung
from edgec.exporter.parity.stored_gguf import check_stored_gguf
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.capturing import capture_request, eager_model, eager_stage, stream_weights
from edgec.exporter.stages.compiled import Facts, Rewrite, WeightFact, load_facts, method_info, passes_of, save_facts
from edgec.exporter.stages.decoder import artifact_quality, rewrite_decoder
from edgec.exporter.stages.pass_orders import file_passes
from edgec.ir.program import Program
from edgec.ir.weight_decision import KEPT, RE_EXPRESSED
from edgec.passes.compress.rounding.stored_integers import stored_weights
from edgec.passes.contract import Pass, run_passes

_FILE_TYPES = {"F32": "ALL_F32", "Q4_K": "MOSTLY_Q4_K_M", "Q5_K": "MOSTLY_Q5_K_M"}
_QUANTIZATION = 2
"""The version of llama.cpp's blocks."""


@dataclass
class GgufStages:
    """The stages of a GGUF file; the rewritten program stays in memory between them."""

    request: ExportRequest
    program: Program | None = None

    def passes(self) -> list[Pass]:
        """The passes, in order."""
        return file_passes(self.request.recipe, self.request.limits, self.request.calibration)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and logits in ``folder``."""
        done = rewrite_decoder(self.request, self.passes(), progress)
        tensors = written_tensors(done.program.graph, self._description().places)
        self.program = done.program
        replace(done, stored=fates_in_file(done.stored, done.program, tensors)).save(folder)

    def _description(self) -> GgufDescription:
        return describe_model(self.request.source, self.request.tokenizer)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Write the file, and read it back; leave it and its facts in ``folder``."""
        program = self.program or self._rewrite_unmeasured(progress)
        progress.enter("lower")
        graph, description, file = program.graph, self._description(), folder / self.request.form.artifact
        tensors = written_tensors(graph, description.places)

        def describe(writer: Any) -> None:
            description.describe(writer)
            _describe_types(writer, tensors)

        written = [factors_tensor(name, values) for name, values in description.factors.items()]
        written += [tensor.file_tensor(graph) for tensor in tensors]
        tell = lambda done, total: progress.step(0.8 * done / total)  # noqa: E731
        write_file(file, description.architecture, describe, written, tell)
        count = check_stored_gguf(file, graph, tensors)
        save_facts(folder, _facts(program, tensors, description, self.request, count))
        self.program = None

    def _rewrite_unmeasured(self, progress: Progress) -> Program:
        program = capture_request(self.request, stream_weights(self.request.source), progress)
        return run_passes(program, self.passes(), in_place=True)

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Run the file as a model, compare it with the graph that it was made from, and with the float model."""
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        source = replace(_read_again(artifact), longest=self.request.source.longest)
        eager = eager_stage(eager_model(source, stream_weights(source)), self.request.probe)
        after = replace(eager, name="artifact")
        count = load_facts(artifact.parent).read_back
        note = f"{EXECUTED_BY}; {count} matrices of integers are the graph's to the bit"
        rungs = [lowering_rung(final, after, FLOAT_LOWERING, note=note)]
        if rounds_weights(self.request.recipe):
            rungs.append(artifact_quality(reference, final, after, rewrite.further, self.request))
        return rungs


def _read_again(artifact: Path) -> ModelSource:
    """The file as MODEL."""
    return resolve(str(artifact))


def _describe_types(writer: Any, tensors: Sequence[WrittenTensor]) -> None:
    from gguf.constants import LlamaFileType

    common = most_common_type(tensors)
    writer.add_file_type(LlamaFileType[_FILE_TYPES.get(common, f"MOSTLY_{common}")])
    if any(tensor.kind for tensor in tensors):
        writer.add_quantization_version(_QUANTIZATION)


def _facts(
    program: Program, tensors: Sequence[WrittenTensor], description: GgufDescription, request: ExportRequest, count: int
) -> Facts:
    weights = [_fact(tensor) for tensor in tensors]
    weights += [_vector(name, values) for name, values in description.factors.items()]
    return Facts(
        passes=passes_of(program),
        methods=[method_info(program.interface)],
        states=[],
        limits=request.limits,
        delegation=None,
        operators=[],
        weights=weights,
        expected_weight_bytes=sum(weight.bytes for weight in weights),
        read_back=count,
    )


def _vector(name: str, values: Tensor) -> WeightFact:
    shape, size = list(values.shape), values.nbytes
    return WeightFact(name=name, dtype="F32", shape=shape, container_bits=32, information_bits=32, bytes=size)


def _fact(tensor: WrittenTensor) -> WeightFact:
    """A tensor of the ledger; bits of a weight in blocks count their scales."""
    bits = 8 * tensor.bytes / prod(tensor.place.shape)
    return WeightFact(
        name=tensor.place.parameter if tensor.place.half is None else tensor.place.name,
        dtype=tensor.type,
        shape=list(tensor.place.shape),
        container_bits=bits,
        information_bits=min(bits, tensor.source.asked_bits or bits),
        bytes=tensor.bytes,
        reason=tensor.source.reason,
    )


def fates_in_file(
    judged: Sequence[CheckpointMatrix], program: Program, tensors: Sequence[WrittenTensor]
) -> tuple[CheckpointMatrix, ...]:
    """What becomes of stored integers in the file: where groups had zero points, other integers for the same values."""
    stored = stored_weights(program.graph)
    forms = stored.forms if stored else {}
    lifted = [tensor for tensor in tensors if tensor.source.lifted and tensor.type in ("Q4_0", "Q5_0", "Q8_0")]
    others = {forms[each.place.parameter].name: each.type for each in lifted if each.place.parameter in forms}
    return tuple(
        each.model_copy(update={"fate": RE_EXPRESSED, "used": f"GGUF {others[each.name]}"})
        if each.name in others and each.fate == KEPT
        else each
        for each in judged
    )
