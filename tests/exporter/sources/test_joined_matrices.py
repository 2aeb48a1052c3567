"""Gates and ups of experts, which a checkpoint stores one by one, are kept as one matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_parameters
from tests.exporter.sources.gguf_models import COMMON
from tests.exporter.sources.packed.test_gptq import GPTQ
from tests.exporter.sources.packed_writers import gptq_parts, rounded, write_packed

EXPERTS: dict[str, Any] = {
    **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_hidden_layers": 2},
    **{"mlp_only_layers": [], "decoder_sparse_step": 1},
}


def experts_folder(folder: Path) -> Path:
    config = AutoConfig.for_model("qwen3_moe", **{**COMMON, **EXPERTS})
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def test_experts_are_kept_as_one_matrix(tmp_path: Path) -> None:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 32, "down_proj" in name)
        return gptq_parts(made), made.values

    settings = {**GPTQ, "group_size": 32, "sym": False}
    meant = write_packed(tmp_path / "m", settings, parts, experts_folder(tmp_path / "float"))
    source = resolve(str(tmp_path / "m"))
    stored = stored_parameters(source)
    assert stored is not None and source.weights is not None
    joined = {name for name in stored.forms if ".experts." in name}
    assert joined == {f"model.layers.{n}.mlp.experts.{part}_proj" for n in (0, 1) for part in ("gate_up", "down")}
    for name in joined:
        form, grid = stored.forms[name], stored.integers(name)
        assert form.form == ("GPTQ int4" if "down" in name else "GPTQ uint4") and form.kept_scheme is not None
        layer = name.rpartition(".")[0]
        of_one = ("down",) if "down" in name else ("gate", "up")
        rows = [meant[f"{layer}.{expert}.{part}_proj.weight"] for expert in range(4) for part in of_one]
        assert torch.equal(grid.dequantize(), torch.cat(rows))
        assert torch.equal(stored.values(name).reshape(len(grid.integers), -1), torch.cat(rows))
    assert sum(form.bytes for form in stored.forms.values()) < sum(value.numel() for value in meant.values())


def test_experts_that_are_stored_differently_are_not_kept(tmp_path: Path) -> None:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 32, "gate_proj" in name)
        return gptq_parts(made), made.values

    write_packed(tmp_path / "m", {**GPTQ, "group_size": 32, "sym": False}, parts, experts_folder(tmp_path / "float"))
    stored = stored_parameters(resolve(str(tmp_path / "m")))
    assert stored is not None
    form = stored.forms["model.layers.0.mlp.experts.gate_up_proj"]
    assert form.form == "GPTQ int4, GPTQ uint4" and form.kept_scheme is None and "joined" in form.reason
