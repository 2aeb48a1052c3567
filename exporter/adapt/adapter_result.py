"""A trained adapter on disk: a folder as PEFT's ``save_pretrained`` writes it, and a file for a bundle if one is given.

The scale of every module is 1 (alpha = rank): what was trained is what is added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.fx import GraphModule

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors, write_file
from edgec.bundle.tensor_file import FloatTensor, TensorFile, tensor_file_bytes
from edgec.exporter.recipes.adapt_record import check_free, output_exists
from edgec.ir.attributes import attribute
from edgec.passes.train.train_adapter import adapted_modules
from edgec.runtime_py.adapters.peft_folder import WEIGHTS, PeftFolder, PeftModule, tensor_name
from edgec.runtime_py.adapters.peft_settings import ADAPTER_CONFIG, PeftSettings


def trained_adapter(graph: GraphModule, rank: int, model: str, folder: Path) -> PeftFolder:
    """The adapter that a graph holds, as it will be read from ``folder``; ``model``: what it was trained on."""
    settings = PeftSettings(model, rank, float(rank), (), (), by_root=False)
    modules = (PeftModule(m.name, _tensor(graph, m.a), _tensor(graph, m.b)) for m in adapted_modules(graph))
    return PeftFolder(folder, settings, tuple(modules))


def _tensor(graph: GraphModule, name: str) -> FloatTensor:
    value = attribute(graph, name).detach().float().cpu().contiguous()
    return FloatTensor("F32", tuple(value.shape), memoryview(value.numpy().tobytes()))


def write_adapter_folder(lora: PeftFolder, pages: Mapping[str, str], force: bool = False) -> None:
    """Write the folder of an adapter, complete or not at all; ``pages``: further files by name.

    Raises:
        InputError: E121 or E122, it cannot be written; E123 or E508, it exists.
    """
    check_free(lora.path, force)
    sides = ((module, side, tensor) for module in lora.modules for side, tensor in (("A", module.a), ("B", module.b)))
    tensors = {tensor_name(module.name, side): tensor for module, side, tensor in sides}
    try:
        with typed_os_errors(lora.path), new_folder(lora.path, replace=force) as folder:
            write_file(folder / WEIGHTS, *tensor_file_bytes(TensorFile({"format": "pt"}, tensors)))
            (folder / ADAPTER_CONFIG).write_text(json.dumps(_config(lora), indent=2) + "\n")
            for name, content in pages.items():
                (folder / name).write_text(content)
    except NameTaken as error:
        raise output_exists(lora.path) from error


def _config(lora: PeftFolder) -> dict[str, Any]:
    """PEFT's settings. The targets are whole names, so that PEFT finds these modules and no others."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": lora.settings.trained_on,
        "r": lora.settings.rank,
        "lora_alpha": lora.settings.rank,
        "target_modules": [module.name for module in lora.modules],
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "use_rslora": False,
        "inference_mode": True,
    }
