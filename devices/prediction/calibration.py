"""Published on-device speeds that the roofline is calibrated on (``speeds.csv``, ``decoders.csv``)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgec.devices.prediction.workload import Workload, fastest_four_hz
from edgec.devices.targets import chips

_HERE = Path(__file__).parent

USUAL_ATTENTION_COST = 3.0
"""How many times as long an operation of attention takes as one of a matrix product; between the two below."""

_ATTENTION_COST = {"mlx": 1.0, "ggml-opencl": 8.0}
"""The same by kernel library, from what one model loses on longer prompts: Qwen3-4B with MLX on an M4 Max from 2,704 to
10,776 tokens, with OpenCL without flash attention on an Adreno X2-90 from 512 to 2,048."""

_CACHE_VALUE_BYTES = {"qnn": 1, "executorch": 4, "mediapipe": 4}
"""Bytes of a cached key or value, by runtime; two elsewhere."""

STATIC_RUNTIMES = ("qnn",)
"""Runtimes whose graphs have static shapes: each call attends to the whole cache."""

_FLOAT_INPUTS = "float16"
"""What ``activations`` of a row say where an NPU multiplies floats."""

_GROUP, _SCALE_BITS, _HEAD_BITS, _FLOATS = 32, 16, 8, 16
"""What plan takes where only the bits of the linear layers are asked for."""

_SKIPS_READERS = ("litert",)
"""Runtimes that skip the layers after the last one with a cache when they read a prompt (Gemma 3n and 4)."""

CALL_TOKENS = {"qnn": 128}
USUAL_CALL_TOKENS = 512
USUAL_PROMPT, USUAL_CONTEXT = 256, 192
"""Tokens of the prompt and of the cache where the source states none."""


@dataclass(frozen=True)
class Observation:
    """One published measurement.

    Attributes:
        row: its number in ``speeds.csv``, which is stable.
        prompt_tokens: as published, or None; likewise ``context_tokens``, in the cache while decoding.
        prefill_tokens_per_s: None where not published or not trustworthy; likewise decode.
        bits: of the linear layers, as the source names them; 0 where it does not.
        asked_bytes: weights that a token would read if plan were asked for these bits; 0 where they are not known.
        prefill_step: the last digit that is given of it, in tokens/s (whole tokens: 1); likewise ``decode_step``.
    """

    row: str
    workload: Workload
    prompt_tokens: float | None
    prefill_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    source: str
    context_tokens: float | None = None
    bits: int = 0
    asked_bytes: float = 0.0
    prefill_step: float = 0.0
    decode_step: float = 0.0


@cache
def observations() -> tuple[Observation, ...]:
    """The measurements in ``speeds.csv``."""
    return read_observations(_HERE / "speeds.csv")


def read_observations(path: Path) -> tuple[Observation, ...]:
    """The measurements in a file of the columns of ``speeds.csv``."""
    with path.open(newline="") as stream:
        return tuple(_observation(row) for row in csv.DictReader(stream))


@cache
def decoders() -> Mapping[str, Mapping[str, str]]:
    """Name of a decoder -> its shape, as written in ``decoders.csv``."""
    with (_HERE / "decoders.csv").open(newline="") as stream:
        return {row["decoder"]: row for row in csv.DictReader(stream)}


def _observation(row: Mapping[str, str]) -> Observation:
    return Observation(
        row=row["row"],
        workload=_workload(row),
        prompt_tokens=_number(row["prompt_tokens"]),
        prefill_tokens_per_s=_number(row["prefill_tokens_per_s"]),
        decode_tokens_per_s=_number(row["decode_tokens_per_s"]),
        source=row["source"],
        context_tokens=_number(row["context_tokens"]),
        bits=int(row["bits"]),
        asked_bytes=_asked_bytes(int(row["bits"]), decoders()[row["decoder"]]),
        prefill_step=_step(row["prefill_tokens_per_s"]),
        decode_step=_step(row["decode_tokens_per_s"]),
    )


def _step(text: str) -> float:
    """The last digit of a printed number: 1 of ``22.0`` and ``22``, a tenth of ``22.5``."""
    return float(10 ** -len(text.rstrip("0").partition(".")[2])) if text else 0.0


def _asked_bytes(bits: int, shape: Mapping[str, str]) -> float:
    """Weights that a token reads in edgec's default form of some bits: groups of 32, an lm_head of 8 bits or floats."""
    scale, head = (_SCALE_BITS / _GROUP, _HEAD_BITS) if bits < _FLOATS else (0.0, bits)
    return (int(shape["matrix_parameters"]) * (bits + scale) + int(shape["head_parameters"]) * head) / 8


def _read_share(row: Mapping[str, str], shape: Mapping[str, str]) -> float:
    """What a decoded token reads of the parameters that a row counts: not an embedding beside the lm_head."""
    return min(1.0, (int(shape["matrix_parameters"]) + int(shape["head_parameters"])) / float(row["parameters"]))


def _workload(row: Mapping[str, str]) -> Workload:
    chip, shape = chips()[row["chip"]], decoders()[row["decoder"]]
    prompt = _number(row["prompt_tokens"]) or USUAL_PROMPT
    read = _read_share(row, shape)
    prompt_parameters = "prompt_parameters" if row["runtime"] in _SKIPS_READERS else "matrix_parameters"
    values = 2 * int(shape["attention_layers"]) * int(shape["kv_width"]) * _context(row)
    return Workload(
        unit=row["unit"],
        runtime=row["runtime"],
        kernels=row["kernels"],
        vendor=chip["vendor"],
        family=chip["family"],
        chip=row["chip"],
        npu=chip.get("hexagon", chip["family"]),
        device=row["device"],
        driver=row["chip"] if row["unit"] in chip.get("driver_limited", ()) else "",
        laptop=chip["kind"] == "laptop",
        model=row["decoder"],
        layers=int(shape["layers"]),
        parameters=float(row["parameters"]) * read,
        prompt_parameters=float(shape[prompt_parameters]),
        weight_bytes=float(row["weight_bytes"]) * read,
        cache_bytes=values * _CACHE_VALUE_BYTES.get(row["runtime"], 2),
        attention_operations=_attention_operations(row, shape, prompt),
        tokens_at_once=min(prompt, CALL_TOKENS.get(row["runtime"], USUAL_CALL_TOKENS)),
        bandwidth_bytes_per_s=float(row["bandwidth_bytes_per_s"]),
        core_hz=fastest_four_hz(chip.get("core_clocks_hz")),
        int8_matmul="i8mm" in chip.get("instruction_set", ()),
        gpu_cores=_number(row["gpu_cores"]),
        gpu_matrix_units=chip.get("gpu_matrix_units", False),
        float_inputs=row["activations"] == _FLOAT_INPUTS,
        recurrent=bool(shape["recurrent"]),
        npu_ops_per_s=chip.get("npu_ops_per_s"),
    )


def _context(row: Mapping[str, str]) -> float:
    return _number(row["context_tokens"]) or USUAL_CONTEXT


def _attention_operations(row: Mapping[str, str], shape: Mapping[str, str], prompt: float) -> float:
    """Operations of attention for one token; on average it attends to half of the prompt."""
    attended = _context(row) if row["runtime"] in STATIC_RUNTIMES else prompt / 2
    width = int(shape["attention_layers"]) * int(shape["attention_width"])
    return 4 * width * attended * attention_cost(row["kernels"])


def attention_cost(kernels: str) -> float:
    """How many times as long an operation of attention takes with a kernel library as one of a matrix product."""
    return _ATTENTION_COST.get(kernels, USUAL_ATTENTION_COST)


def _number(text: str) -> float | None:
    return float(text) if text else None
