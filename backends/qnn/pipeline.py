"""The stages in which onnxruntime-genai's decoder pipeline executes an artifact of the format ``qnn``.

    begin_METHOD.onnx        onnxruntime-genai's inputs -> the method's own                 CPU  (``pipeline_ends.py``)
    part_0/host_METHOD.onnx  embedding, masks, rotary rows                                  CPU
    part_0/METHOD.onnx       layers                                                         Hexagon
    part_1/...               where one context is too small for the model
    end_METHOD.onnx          new rows -> caches, logits                                     CPU  (``pipeline_ends.py``)

``prefill`` reads a prompt in windows, ``decode`` the tokens after it. A stage takes what an earlier one gives under the
same name, so that the artifact's own files are stages as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgec.backends.qnn.context import folders
from edgec.backends.qnn.pipeline_ends import PipelineForm, begin_model, end_model
from edgec.bundle.entry_points import StateInfo
from edgec.ir.static_methods import DECODE, PREFILL
from edgec.passes.static.parts.cut_model import HIDDEN, NEXT

ENDS = "pipeline"
"""The folder of the first and the last stages, beside the artifact."""
_LOGITS = "logits"


@dataclass(frozen=True)
class PipelineStage:
    """One stage.

    Attributes:
        name: of the stage; no other has it.
        method: in which it is executed.
        file: its ONNX model, by its path in the bundle.
        inputs: names of what it takes.
        outputs: names of what it gives.
        accelerated: executed by Hexagon, and not by the CPU.
        renamed: what the stages after it call its outputs, where by another name.
    """

    name: str
    method: str
    file: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    accelerated: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


def pipeline_form(artifact: Path, states: Sequence[StateInfo]) -> PipelineForm:
    """What the first and the last stages must know; arguments as the attributes of ``PipelineForm``."""
    last = _model(folders(artifact)[-1] / f"{DECODE}.onnx").graph.output
    widths = {each.name: each.type.tensor_type.shape.dim[2].dim_value for each in last}
    logits = {name: width for name, width in widths.items() if name.startswith(_LOGITS)}
    return PipelineForm(states, logits)


def pipeline_ends(form: PipelineForm, chunk: int) -> dict[str, bytes]:
    """The first and last stages' models, by their path in the bundle."""
    sizes = {PREFILL: chunk, DECODE: 1}
    begin = {f"{ENDS}/begin_{method}.onnx": begin_model(form, size) for method, size in sizes.items()}
    return begin | {f"{ENDS}/end_{method}.onnx": end_model(form, size) for method, size in sizes.items()}


def pipeline_stages(artifact: Path, ends: Mapping[str, bytes]) -> list[PipelineStage]:
    """All stages in order; ``ends``: the first and last ones' models."""
    return [stage for method in (PREFILL, DECODE) for stage in _of_method(method, artifact, ends)]


def _of_method(method: str, artifact: Path, ends: Mapping[str, bytes]) -> Iterator[PipelineStage]:
    yield _end(f"begin_{method}", method, ends)
    for index, folder in enumerate(folders(artifact)):
        place = f"{artifact.name}/{folder.name}"
        if (folder / f"host_{method}.onnx").exists():
            names = _names(_model(folder / f"host_{method}.onnx"))
            yield PipelineStage(f"host_{method}_{index}", method, f"{place}/host_{method}.onnx", *names)
        inputs, outputs = _names(_model(folder / f"{method}.onnx"))
        renamed = {NEXT: HIDDEN} if NEXT in outputs else {}
        yield PipelineStage(f"{method}_{index}", method, f"{place}/{method}.onnx", inputs, outputs, True, renamed)
    yield _end(f"end_{method}", method, ends)


def _end(name: str, method: str, ends: Mapping[str, bytes]) -> PipelineStage:
    import onnx

    file = f"{ENDS}/{name}.onnx"
    return PipelineStage(name, method, file, *_names(onnx.load_from_string(ends[file])))


def _model(path: Path) -> Any:
    import onnx

    return onnx.load(str(path), load_external_data=False)


def _names(model: Any) -> tuple[list[str], list[str]]:
    return [each.name for each in model.graph.input], [each.name for each in model.graph.output]
