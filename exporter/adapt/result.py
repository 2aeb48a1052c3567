"""An adapted model on disk: a checkpoint folder with what was learned, and a record of how.

Weights of one grid are stored as the values that their integers stand for, so that the folder's plain float model is
the quantised one (transformers runs it, and an export compares against it). Weights that are read in two ways stay as
they were trained, and the export rounds them. Scales are stored with them, under the names that the record lists.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors
from edgec.exporter.adapt.student import Traced
from edgec.exporter.recipes.adapt_record import KEY, AdaptRecord, check_free, grid_entry, output_exists
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.weights.names import adapted_absence
from edgec.ir.attributes import transposed
from edgec.ir.kv_donors import kept_layers
from edgec.passes.compress.rounding.learned_grids import levels_of, needs_half
from edgec.passes.kv.sharing.narrow_linear import NARROWED
from edgec.passes.train.fake_quantize import PreparedWeight, learned_grids, prepared
from edgec.passes.train.low_rank import add_correction, merge_weight
from edgec.passes.train.straight_through import fake_weight

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource

_TRAINED_UNDER = ("shared_kv", "fake_quantize")
_FLOAT = "float32"


def write_result(
    out: Path,
    source: ModelSource,
    learner: Traced,
    recipe: Recipe,
    recipe_file: Path,
    pages: Mapping[str, str],
    force: bool = False,
) -> None:
    """Write an adapted model's folder, complete or not at all.

    Args:
        out: the folder to write.
        source: the model that was adapted.
        learner: its graph after training.
        recipe: as trained.
        recipe_file: the recipe's TOML file, which is copied.
        pages: further files by name.
        force: replace an adapted model that is already there.

    Raises:
        InputError: E121 or E122, it cannot be written; E123 or E508, it exists.
    """
    from safetensors.torch import save_file

    check_free(out, force)
    grids, entries = stored_grids(learner.program.graph)
    record = _record(learner, recipe, recipe_file.name, entries)
    weights = trained_weights(source, learner, record)
    try:
        with typed_os_errors(out), new_folder(out, replace=force) as folder:
            save_file({**weights, **grids}, folder / "model.safetensors", metadata={"format": "pt"})
            (folder / "config.json").write_text(_config(source, record))
            _copy_unchanged(source, recipe_file, folder)
            for name, content in pages.items():
                (folder / name).write_text(content)
    except NameTaken as error:
        raise output_exists(out) from error


def stored_grids(graph: GraphModule) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
    """The learned scales by the name they are stored under, and the record's entry for each."""
    targets = [each.log_scale.removeprefix("decoder.").replace("_log_scale", "_scale") for each in prepared(graph)]
    grids = dict(zip(targets, learned_grids(graph), strict=True))
    entries = {name: grid_entry(grid.parameter, grid.scheme) for name, grid in grids.items()}
    return {name: grid.scale.contiguous() for name, grid in grids.items()}, entries


def trained_weights(source: ModelSource, learner: Traced, record: AdaptRecord) -> dict[str, Tensor]:
    """Every tensor of the model by its name there, float32; those that the adapted model does not need are left out."""
    assert source.weights is not None
    graph = learner.program.graph
    read = {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}
    trained = {name: target for target, name in learner.names.items() if target in read}
    absent = adapted_absence({**source.config, KEY: record.to_json()})
    tensors = {}
    for name in source.weights.names():
        if not any(re.search(pattern, name) for pattern in absent):
            stored = source.weights.tensor(name).float()
            value = stored.clone() if name not in trained else _value(graph, trained[name], stored)
            tensors[name] = value.cpu().contiguous()
    return tensors


def _record(learner: Traced, recipe: Recipe, recipe_name: str, grids: Mapping[str, Any]) -> AdaptRecord:
    done = [change.name for change in learner.program.history]
    spec = learner.program.spec
    assert spec is not None
    shared = "shared_kv" in done
    return AdaptRecord(
        passes=tuple(name for name in _TRAINED_UNDER if name in done),
        boundary=kept_layers(recipe.boundary, len(spec.layers)) if shared else None,
        mode=recipe.shared_kv if shared else None,
        recipe=recipe_name,
        grids=grids,
    )


@torch.no_grad()
def _value(graph: GraphModule, target: str, stored: Tensor) -> Tensor:
    """A parameter as it is written: with its correction, on its grid, at its place in the model's own tensor."""
    value = merge_weight(graph, target)
    grid = next((each for each in prepared(graph) if each.weight == target and _only_reader(graph, each)), None)
    if grid is not None:
        levels = levels_of(grid.decision)
        scale = graph.get_parameter(grid.log_scale)
        value = fake_weight(value, scale, levels.low, levels.high, levels.step, needs_half(grid.decision))
    turned = target in transposed(graph)
    whole = (stored.mT if turned else stored).clone()
    rows = graph.meta.get(NARROWED, {}).get(target)
    part = whole if rows is None else whole[rows[0] : rows[1]]
    part.copy_(value.reshape(part.shape))
    return whole.mT if turned else whole


def _only_reader(graph: GraphModule, grid: PreparedWeight) -> bool:
    """Whether a weight is read through this one grid only."""
    pending: list[Node] = [node for node in graph.graph.nodes if node.op == "get_attr" and node.target == grid.weight]
    while pending:
        for user in pending.pop().users:
            if user.target is fake_weight:
                scale = user.args[1]
                if not isinstance(scale, Node) or scale.target != grid.log_scale:
                    return False
            elif user.target is add_correction:
                pending.append(user)
            else:
                return False
    return True


def _config(source: ModelSource, record: AdaptRecord) -> str:
    config = deepcopy(source.hf_config)
    config.dtype = _FLOAT
    table = json.loads(config.to_json_string())
    architectures = source.config.get("architectures")
    table.update({KEY: record.to_json(), **({"architectures": architectures} if architectures else {})})
    return json.dumps(table, indent=2) + "\n"


def _copy_unchanged(source: ModelSource, recipe_file: Path, folder: Path) -> None:
    """Copy what training leaves alone: generation config, recipe and tokenizer."""
    if source.generation_config:
        (folder / "generation_config.json").write_text(json.dumps(source.generation_config, indent=2) + "\n")
    shutil.copyfile(recipe_file, folder / recipe_file.name)
    assert source.path is not None
    for file in source.tokenizer_files:
        place = folder / file.relative_to(source.path)
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, place)
