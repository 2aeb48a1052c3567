"""What a target cannot hold of a model, refused before anything is traced: states of recurrences, experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoder_spec import text_config
from edgec.exporter.sources.expert_counts import experts_of
from edgec.exporter.sources.model_source import ModelSource
from edgec.passes.kv.recurrent_states import unheld_state
from edgec.passes.static.static_states import is_written, unwritten_recurrence

# Kinds of layers that remember earlier tokens in a state other than keys and values.
_RECURRENT = frozenset({"linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "recurrent"})
# Those of them that are always a recurrence, which model code calls by a name.
_NAMED = frozenset({"linear_attention", "mamba", "recurrent"})


def check_held(source: ModelSource, recipe: Recipe, form: Form) -> None:
    """Refuse a decoder with recurrences or experts, where nothing can hold or read them.

    Where the config does not tell, the model's code does, run once over the meta device.

    Raises:
        InputError: E513, E527, E528.
    """
    if not form.static and recipe.kernels == "edgec":
        return
    config = text_config(source.config)
    kinds = sorted(_RECURRENT.intersection(_layer_kinds(config)))
    if kinds and not _holds_states(form):
        raise unheld_state(f"{source.name}, layers of kind {', '.join(kinds)}", form.unheld)
    if experts_of(config) > 1:
        raise unread_experts(source.name)
    calls = _recurrences(source)
    if calls and not _holds_states(form):
        raise unheld_state(source.name, form.unheld)
    if not all(is_written(operator, shapes) for operator, shapes in calls):
        raise unwritten_recurrence(source.name)


def _holds_states(form: Form) -> bool:
    return form.static and not form.unheld


def check_recurrences(source: ModelSource) -> None:
    """Refuse a decoder whose config names recurrent layers where edgec knows none of the functions that compute them.

    Raises:
        InputError: E529.
    """
    from edgec.exporter.capture.recurrences import names_of_recurrences

    kinds = sorted(_NAMED.intersection(_layer_kinds(text_config(source.config))))
    if not kinds:
        return
    if not names_of_recurrences(_shell(source)):
        raise InputError(
            what="this model's recurrent layers are computed by code that edgec has no operator for",
            where=f"{source.name}, layers of kind {', '.join(kinds)}",
            why=f"its file in transformers {version('transformers')} has none of the functions that edgec replaces",
            fix="use the version of transformers that edgec requires; if it is installed, report the architecture",
            code="E529",
        )


def _layer_kinds(config: Mapping[str, Any]) -> frozenset[str]:
    named = (config.get(key) for key in ("layer_types", "layers_block_type", "block_types"))
    return frozenset(str(kind) for kinds in named if isinstance(kinds, list | tuple) for kind in kinds)


def _recurrences(source: ModelSource) -> Sequence[tuple[Any, list[tuple[int, ...]]]]:
    from edgec.exporter.sources.held_states import recurrences_called

    return recurrences_called(_shell(source)) or ()


def _shell(source: ModelSource) -> Any:
    """The model on the meta device, with attention as edgec's operator."""
    from edgec.exporter.capture.attention import NAME, register

    register()
    return source.build_on("meta", attn_implementation=NAME)


def unread_experts(where: str) -> InputError:
    """The error for a mixture of experts where no kernel reads the chosen ones alone."""
    return InputError(
        what="this target cannot hold a mixture of experts",
        where=where,
        why="its runtime has no operator that reads the matrices of the chosen experts only",
        fix="export for a CPU with edgec's kernels (--target android-cpu, host, or a phone's -cpu target)",
        code="E527",
    )
