"""What genai_config.json says of an artifact of the format ``qnn``: a decoder in stages, some of them Hexagon's.

    prompt   128 tokens at a time, the last window filled up -> begin_prefill, host_prefill, prefill, ..., end_prefill
    after it one token at a time                             -> begin_decode, host_decode, decode, ..., end_decode

Windows are filled up behind the text (``alignment`` left), as edgec's own runtimes do, and caches stay where they are
(``slide_key_value_cache`` off). ``layers`` names those that forget what lies before a window; without it some versions
give all of them caches of a window's size. A number that no layer has says that none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edgec.backends.qnn.pipeline import PipelineStage, pipeline_ends, pipeline_form, pipeline_stages
from edgec.backends.qnn.pipeline_ends import NEXT_LOGITS, PAST_LENGTH, TOTAL_LENGTH
from edgec.bundle.entry_points import StateInfo
from edgec.errors import InputError
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.compiled import Facts
from edgec.ir.growing_cache import INPUT_IDS, PRESENT
from edgec.ir.static_methods import PREFILL

_HEXAGON: Final = {
    "backend_type": "htp",
    "htp_performance_mode": "burst",
    "offload_graph_io_quantization": "0",
}
_PAIR: Final = ["key", "value"]


def vocabulary(facts: Facts) -> int:
    """How many logits a call says, in one output or in several side by side."""
    return sum(int(each.shape[-1]) for each in facts.methods[0].outputs if each.name.startswith("logits"))


def ends_files(request: ExportRequest, facts: Facts, artifact: Path) -> dict[str, bytes]:
    """The models of the first and the last stages, by their path in the bundle.

    Raises:
        InputError: E855, the caches have no place in onnxruntime-genai.
    """
    roles = [state.role for state in facts.states]
    pairs = zip(facts.states[::2], facts.states[1::2], strict=False)
    if roles != _PAIR * (len(roles) // 2) or any(key.shape != value.shape for key, value in pairs):
        raise InputError(
            "The layout genai has no place for these caches.",
            where="--layout genai",
            why="onnxruntime-genai holds keys and values of one width for each layer, and nothing else",
            fix="leave --layout out: edgec's own layout has it",
            code="E855",
        )
    form = pipeline_form(artifact, facts.states)
    return pipeline_ends(form, request.limits.prefill_chunk)


def pipeline_decoder(request: ExportRequest, facts: Facts, artifact: Path, ends: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of the decoder; ``ends``: the files that ``ends_files`` gives."""
    stages = pipeline_stages(artifact, ends)
    return {
        "inputs": {
            "input_ids": INPUT_IDS,
            "past_sequence_length": PAST_LENGTH,
            "total_sequence_length": TOTAL_LENGTH,
            "past_key_names": _numbered(facts.states[0]),
            "past_value_names": _numbered(facts.states[1]),
        },
        "outputs": {
            "logits": NEXT_LOGITS,
            "present_key_names": PRESENT % ("%d", "key"),
            "present_value_names": PRESENT % ("%d", "value"),
        },
        "sliding_window": {
            "window_size": request.limits.prefill_chunk,
            "alignment": "left",
            "slide_inputs": True,
            "slide_key_value_cache": False,
            "layers": [len(facts.states) // 2],
        },
        "pipeline": [{stage.name: _stage(stage)} for stage in stages],
    }


def _numbered(cache: StateInfo) -> str:
    """The names of all caches like this one, with a place for the layer's number."""
    return f"{cache.name.rpartition('_')[0]}_%d"


def _stage(stage: PipelineStage) -> Mapping[str, Any]:
    """The fields of a stage; what has no options of its own runs on the CPU."""
    options = {"session_options": {"provider_options": [{"QNN": _HEXAGON}]}} if stage.accelerated else {}
    renamed = {"output_names_forwarder": dict(stage.renamed)} if stage.renamed else {}
    return {
        "filename": stage.file,
        "inputs": list(stage.inputs),
        "outputs": list(stage.outputs),
        "run_on_prompt": stage.method == PREFILL,
        "run_on_token_gen": stage.method != PREFILL,
        **renamed,
        **options,
    }
