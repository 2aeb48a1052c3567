"""Other tools' formats on the same layers: 8 bits with outlier columns in float, floats of 8 bits, k-quants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.quality_parts.measure import Reference, Row
from benchmarks.quality_parts.rounding import Stored, Way, rounded

if TYPE_CHECKING:
    import torch
    from torch import Tensor

OUTLIER, OUTLIER_SHARE = 6.0, 0.01
"""LLM.int8's threshold on an input's magnitude; where no input is so large, the largest share of inputs is used."""
_K_BLOCK = 256
TYPES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S", "Q4_0", "Q3_K_M", "Q2_K")


def simulated(reference: Reference) -> Iterator[Row]:
    """Measure the formats that store each matrix by a rule."""
    import torch

    ways: dict[tuple[str, str], Way] = {
        ("8-bit integers, outlier columns in float16", "LLM.int8, weights only"): _outliers,
        ("FP8 E4M3 per channel", "nearest"): _fp8(torch.float8_e4m3fn),
        ("FP8 E5M2 per channel", "nearest"): _fp8(torch.float8_e5m2),
    }
    for (form, algorithm), way in ways.items():
        changed, bits = rounded(reference.subject.program, reference.subject, way)
        yield reference.row(changed, form, algorithm, bits)


def _outliers(weight: Tensor, inputs: Tensor) -> Stored:
    """Round all columns except those with large inputs (Dettmers et al. 2022, arXiv 2208.07339)."""
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.compress.rounding.weight_grid import quantize_weight

    largest = inputs.abs().amax(0)
    kept = largest >= OUTLIER
    if not kept.any():
        kept = largest >= largest.sort().values[-max(1, round(OUTLIER_SHARE * len(largest)))]
    plain = weight.clone()
    plain[:, kept] = 0
    values = quantize_weight(plain, WeightScheme(8, 0), "rtn").dequantize()
    values[:, kept] = weight[:, kept].half().float()
    rows, columns = weight.shape
    return Stored(values, rows * (8.0 * columns + 8.0 * int(kept.sum()) + 32.0))


def _fp8(dtype: torch.dtype) -> Way:
    def way(weight: Tensor, inputs: Tensor) -> Stored:
        import torch

        scale = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / torch.finfo(dtype).max
        return Stored((weight / scale).to(dtype).float() * scale, 8.0 * weight.numel() + 32.0 * len(weight))

    return way


def k_quants(reference: Reference, build: Path) -> Iterator[Row]:
    """Measure llama.cpp's own quantiser and kernels (which round activations to 8 bits), through llama-cpp-python.

    The lm_head stays in float16 as in the other rows; the row of the float16 file is the baseline of these.
    """
    import torch

    from benchmarks.harness.processes import run_worker
    from benchmarks.peers.environment import peers_python

    subject, folder = reference.subject, build / "quality" / reference.subject.name
    folder.mkdir(parents=True, exist_ok=True)
    python = peers_python(build)
    plain = float16_file(subject.folder, folder, python)
    windows = [ids[0].tolist() for ids in subject.held_out]
    for name in ("F16", *TYPES):
        wanted = {"source": str(plain), "type": name, "windows": windows, "out": str(folder / name)}
        answer = run_worker("benchmarks.peers.gguf_quality", wanted, python=python)
        flat = torch.frombuffer(bytearray(Path(answer["logits"]).read_bytes()), dtype=torch.float32)
        parts = torch.split(flat.view(-1, answer["vocabulary"]), [len(window) for window in windows])
        logprobs = [each.log_softmax(-1) for each in parts]
        Path(answer["logits"]).unlink()
        yield reference.compare(logprobs, f"llama.cpp {name}", answer["types"], answer["bits"])


def float16_file(model: Path, folder: Path, python: Path) -> Path:
    """A model's weights as a GGUF file in float16, written into ``folder`` by the peers' environment."""
    from benchmarks.harness.processes import run_worker

    config, plain = folder / "config.json", folder / "float16.gguf"
    config.write_text(json.dumps(_config(model)))
    weights = _float32(model / "model.safetensors", folder / "float32.safetensors")
    job = {"config": str(config), "weights": str(weights), "out": str(plain)}
    run_worker("benchmarks.peers.gguf_model", job, python=python)
    return plain


def _float32(weights: Path, out: Path) -> Path:
    """Copy the weights to float32, since the peers' environment reads them with numpy, which lacks bfloat16."""
    from safetensors.torch import load_file, save_file

    save_file({name: tensor.float() for name, tensor in load_file(weights).items()}, out)
    return out


def _config(folder: Path) -> dict[str, object]:
    """The model's config with the keys that the GGUF writer reads."""
    config: dict[str, object] = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters")
    if "rope_theta" not in config:
        config["rope_theta"] = rope.get("rope_theta", 10000.0) if isinstance(rope, dict) else 10000.0
    return config


def fits_k_quants(folder: Path) -> bool:
    """Whether blocks of 256 values divide the rows of a model; llama.cpp stores other rows in larger types."""
    config = _config(folder)
    return all(int(str(config[key])) % _K_BLOCK == 0 for key in ("hidden_size", "intermediate_size"))
