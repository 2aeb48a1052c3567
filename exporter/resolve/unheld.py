"""What a target cannot hold of a model, refused before anything is traced: states of recurrences, experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoders.expert_counts import experts_of
from edgec.exporter.sources.decoders.spec import text_config
from edgec.exporter.sources.model_source import ModelSource
from edgec.ir.recurrence import CAUSAL_CONV
from edgec.passes.kv.recurrent_states import unheld_state
from edgec.passes.static.static_states import is_written, unwritten_recurrence

# Kinds of layers that remember earlier tokens in a state other than keys and values.
_RECURRENT = frozenset({"linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "recurrent"})
# Those of them that are always a recurrence, which model code calls by a name.
_NAMED = frozenset({"linear_attention", "mamba", "recurrent"})
_HALF = "it sums exponentials of gates, which leave the range of float16, in which this target's methods compute"
# A short convolution, which edgec also knows by its padding.
_FILTER = "conv"


def check_held(source: ModelSource, recipe: Recipe, form: Form) -> None:
    """Refuse a decoder with recurrences or experts, where nothing can hold or read them.

    Where the config does not tell, the model's code does, run once over the meta device.

    Raises:
        InputError: E513, E527, E528.
    """
    if form.written or (not form.static and recipe.kernels == "edgec"):
        return
    config = text_config(source.config)
    kinds = sorted(_RECURRENT.intersection(_layer_kinds(config)))
    if kinds and not _holds_states(form):
        raise unheld_state(f"{source.name}, layers of kind {', '.join(kinds)}", form.unheld)
    if experts_of(config) > 1:
        raise unread_experts(source.name)
    _check_states(source, form)


def _check_states(source: ModelSource, form: Form) -> None:
    from edgec.exporter.capture.recurrences import is_beyond_half
    from edgec.exporter.dimensions.module_states import recurrences_called

    model = _shell(source)
    calls = recurrences_called(model) or ()
    if calls and not _holds_states(form):
        raise unheld_state(source.name, form.unheld)
    if form.static and form.half and is_beyond_half(model):
        raise unheld_state(source.name, _HALF)
    if not all(is_written(operator, shapes) for operator, shapes in calls):
        raise unwritten_recurrence(source.name)


def _holds_states(form: Form) -> bool:
    return form.static and not form.unheld


def check_recurrences(source: ModelSource) -> None:
    """Refuse a decoder whose config names recurrent layers where edgec knows none of the code that computes them.

    Raises:
        InputError: E529.
    """
    config = text_config(source.config)
    if named := sorted(_NAMED.intersection(_layer_kinds(config))):
        _check_named(source, named)
    if filters := max((kinds.count(_FILTER) for kinds in _listed_kinds(config)), default=0):
        _check_filters(source, filters)


def _check_named(source: ModelSource, kinds: Sequence[str]) -> None:
    from edgec.exporter.capture.recurrences import names_of_recurrences

    if not names_of_recurrences(_shell(source)):
        raise _uncomputed(source, kinds, "its file in {} has none of the functions that edgec replaces")


def _check_filters(source: ModelSource, layers: int) -> None:
    """Refuse fewer short convolutions than layers of them; code that does not run without values is left to tracing."""
    from edgec.exporter.dimensions.module_states import recurrences_called

    calls = recurrences_called(_shell(source))
    known = layers if calls is None else sum(operator is CAUSAL_CONV for operator, _ in calls)
    if known < layers:
        raise _uncomputed(source, [_FILTER], f"of the {layers} that its file in {{}} computes, edgec knows {known}")


def _uncomputed(source: ModelSource, kinds: Sequence[str], why: str) -> InputError:
    return InputError(
        what="this model's recurrent layers are computed by code that edgec has no operator for",
        where=f"{source.name}, layers of kind {', '.join(kinds)}",
        why=why.format(f"transformers {version('transformers')}"),
        fix="use the version of transformers that edgec requires; if it is installed, report the architecture",
        code="E529",
    )


def _layer_kinds(config: Mapping[str, Any]) -> frozenset[str]:
    return frozenset().union(*_listed_kinds(config))


def _listed_kinds(config: Mapping[str, Any]) -> list[list[str]]:
    """The kind of every layer, by each list of a config that names them."""
    named = (config.get(key) for key in ("layer_types", "layers_block_type", "block_types"))
    return [[str(kind) for kind in kinds] for kinds in named if isinstance(kinds, list | tuple)]


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
