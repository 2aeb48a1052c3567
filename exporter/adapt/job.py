"""One run of training, and what is refused before anything is built."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.folder import Bundle, existing_output
from edgec.errors import InputError
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.recipes.adapt_record import as_recorded, check_free
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoders.spec import model_spec

if TYPE_CHECKING:
    from edgec.exporter.adapt.boundary import Boundary
    from edgec.exporter.sources.model_source import ModelSource


@dataclass(frozen=True)
class AdaptJob:
    """One run of training: the model, its teacher, its recipe and its text.

    Attributes:
        source: the model.
        teacher: the model it learns from.
        recipe: resolved for its backend.
        recipe_file: the recipe's TOML file.
        places: files, folders and data sets with the text.
        settings: of training.
        out: the folder to write.
        force: replace a folder that is already there.
        boundary: how the boundary was chosen, where the recipe leaves it open.
        bundle: the bundle that an adapter is also written for.
    """

    source: ModelSource
    teacher: ModelSource
    recipe: Recipe
    recipe_file: Path
    places: tuple[str, ...]
    settings: Settings
    out: Path
    force: bool
    boundary: Boundary | None = None
    bundle: Bundle | None = None

    @property
    def adapter_file(self) -> Path:
        """The file of a trained adapter for the bundle, beside its folder."""
        return self.out.with_name(f"{self.out.name}.adapter")


def check_job(job: AdaptJob, has_teacher: bool) -> None:
    """Refuse what cannot be trained, before anything is built."""
    if job.source.kind != "decoder" or job.source.path is None or not job.source.tokenizer_files:
        raise InputError(
            what="adapt trains decoders with a tokenizer",
            where=job.source.source,
            why="the model is not a language model, or its folder holds no tokenizer",
            fix="give a causal language model's folder or hub id",
            code="E506",
        )
    context = model_spec(job.source.config).context
    if job.settings.length > context:
        why, fix = f"the model takes at most {context}", f"use --length {context} or less"
        raise InputError(f"sequences of {job.settings.length} tokens are too long", "--length", why, fix, "E501")
    if has_teacher:
        _check_teacher(job)
    check_free(job.out, job.force)
    if job.bundle is not None:
        _check_bundle(job, job.bundle)
    recipe = job.recipe
    if recipe.prepare:
        why = "training itself changes the weights, and reads their scales from the unmodified ones"
        raise InputError(f"{recipe.name} rewrites weights first", "--recipe", why, "leave prepare out", "E509")
    if recipe.early_exit:
        why = "the layers that an export leaves out would still be trained"
        raise InputError(f"{recipe.name} ends the model early", "--recipe", why, "leave early_exit out", "E509")
    schemes = (recipe.weights, recipe.lm_head, recipe.embedding, recipe.rules)
    changes = any(schemes) or recipe.shared_kv or recipe.kv_dtype != "float32"
    if not changes and not has_teacher and not job.settings.text_loss:
        raise InputError(
            what="there is nothing to learn",
            where=f"recipe {recipe.name}",
            why="the recipe changes nothing, and the model is its own teacher",
            fix="give --text-loss 1 to train on the text itself, or another --teacher",
            code="E506",
        )


def _check_teacher(job: AdaptJob) -> None:
    """Refuse a teacher that reads other tokens, fewer of them, or layers that cannot be compared."""
    fault = next(_teacher_faults(job), None)
    if fault is not None:
        fix = "give a teacher of the same family, with the same tokenizer"
        raise InputError("the teacher does not fit the model", f"--teacher {job.teacher.source}", fault, fix, "E514")


def _teacher_faults(job: AdaptJob) -> Iterator[str]:
    """Reasons in words; a larger embedding that is padded differently is none."""
    if job.teacher.kind != "decoder" or job.teacher.path is None or not job.teacher.tokenizer_files:
        yield "it is not a language model with a tokenizer"
    own, other = model_spec(job.source.config), model_spec(job.teacher.config)
    if job.settings.length > other.context:
        yield f"it was made for {other.context} tokens, fewer than a sequence has"
    shapes = [[(layer.heads, layer.head_dim) for layer in spec.layers] for spec in (own, other)]
    if job.settings.hidden_loss and shapes[0] != shapes[1]:
        yield "--hidden-loss compares attention layer by layer, and its layers have other shapes"
    if _token_ids(job.source) != _token_ids(job.teacher):
        yield "the same ids stand for other tokens"


def _token_ids(source: ModelSource) -> dict[str, int]:
    from edgec.exporter.sources.tokenizer import load_tokenizer

    assert source.path is not None
    ids: dict[str, int] = load_tokenizer(source.path, trust_remote_code=source.trust_remote_code).get_vocab()
    return ids


_ROUNDING = ("weights", "lm_head", "embedding", "rules", "algorithm", "prepare", "kv_dtype", "shared_kv", "early_exit")


def _check_bundle(job: AdaptJob, bundle: Bundle) -> None:
    """Refuse a bundle that takes no adapters, or whose integers are others than those that are trained beside."""
    if not job.settings.adapter:
        why = "without --low-rank, or with --merge, the model's weights are trained and have to be exported again"
        raise InputError("no adapter is trained", "--bundle", why, "give --low-rank RANK", "E501")
    targets_of(bundle)
    if os.path.lexists(job.adapter_file) and not job.force:
        raise existing_output(job.adapter_file)
    recipe = as_recorded(job.recipe, job.source.config)
    trained: Mapping[str, Any] = json.loads(json.dumps(recipe.to_json()))
    different = [name for name in _ROUNDING if trained[name] != bundle.manifest.recipe.get(name)]
    if different:
        raise InputError(
            what=f"the bundle was exported with another recipe than {job.recipe.name}",
            where=str(bundle.path),
            why=f"an adapter also wins back what one rounding loses; these differ: {', '.join(different)}",
            fix=f"give the bundle's recipe ({bundle.manifest.recipe_name}), or another bundle",
            code="E699",
        )
