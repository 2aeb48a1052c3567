"""The context of an artifact: what the user names, else the recipe's number where the model can have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgec.backends.forms import FORMS
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.limits import AHEAD_CHUNK, static_limits
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stages.vision_language import refuse_windows
from tests.vision_language import save_vision_language, tiny_vision_language


def request_for(folder: Path, context: int | None = None) -> ExportRequest:
    options = ExportOptions(str(folder), target="host", recipe="float", context=context)
    return resolve_options(options).request


def sizes() -> tuple[int, int, int]:
    """The sliding window and the longest context of the tiny Gemma 3, and the context of the recipe."""
    text = tiny_vision_language("gemma3").config.text_config
    recipe = load_recipe("float").context
    assert recipe is not None
    return text.sliding_window, text.max_position_embeddings, recipe


def test_rows_that_see_ahead_get_a_context_of_the_window_where_none_is_named(tmp_path: Path) -> None:
    folder = save_vision_language("gemma3", tmp_path / "gemma3")
    window, longest, recipe = sizes()
    assert window < longest < recipe, "else the model's own length would hide the window"
    request = request_for(folder)
    assert request.limits.context == request.limits.prefill_chunk == window
    refuse_windows(request)
    assert request_for(folder, window - 1).limits.context == window - 1


def test_a_longer_context_that_is_named_is_refused(tmp_path: Path) -> None:
    folder = save_vision_language("gemma3", tmp_path / "gemma3")
    window, longest, _ = sizes()
    for context in (window + 1, longest):
        request = request_for(folder, context)
        assert request.limits.context == context
        with pytest.raises(InputError) as error:
            refuse_windows(request)
        assert error.value.code == "E660" and str(window) in error.value.fix


def test_a_window_bounds_no_context_where_all_see_back_alone(tmp_path: Path) -> None:
    folder = save_vision_language("gemma4", tmp_path / "gemma4")
    request = request_for(folder)
    assert min(layer.window or 999 for layer in request.spec.layers) < request.limits.context == request.spec.context
    refuse_windows(request)


def test_a_recipe_may_ask_for_longer_calls_of_fixed_shapes_where_rows_see_ahead(tmp_path: Path) -> None:
    request = request_for(save_vision_language("gemma3", tmp_path / "gemma3"))
    form, spec = FORMS["coreml", "mlpackage"], replace(request.spec, context=4096)
    for asked, given in ((64, AHEAD_CHUNK), (1100, 1100)):
        recipe = replace(request.recipe, prefill_chunk=asked)
        assert static_limits(spec, recipe, 2048, form, ahead=True).prefill_chunk == given
        assert static_limits(spec, recipe, 2048, form).prefill_chunk == form.chunk
