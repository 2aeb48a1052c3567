"""Models that are read, built and run once, however often they are planned or resolved."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from edgec.devices.prediction import app_limit, forecast
from edgec.devices.targets import all_targets
from edgec.exporter.dimensions import module_states
from edgec.exporter.resolve import planned, planned_source, resolved, widths
from edgec.exporter.sources.model_source import ModelSource


def cache_models(patch: pytest.MonkeyPatch) -> None:
    """Answer questions about a model from the first answer, which depends on the model and not on the target."""
    _once(patch, planned_source, "resolve", _words)
    patch.setattr(resolved, "resolve", vars(planned_source)["resolve"])
    _once(patch, planned, "model_shape", _shape)
    _once(patch, planned, "read_config", _words)
    _once(patch, widths, "read_config", _words)
    _once(patch, widths, "whole_config", _shape)
    _once(patch, widths, "load_recipe", str)
    _once(patch, module_states, "recurrences_called", lambda model: str(model.config))
    _once(patch, forecast, "footprint", _listed)
    targets = all_targets()
    for place in (planned, app_limit):
        patch.setattr(place, "all_targets", lambda: targets)
    _once(patch, ModelSource, "build_on", lambda source, *given, **asked: (_of(source), given, str(asked)))


def _once(patch: pytest.MonkeyPatch, place: Any, name: str, key: Callable[..., Any]) -> None:
    original, known = getattr(place, name), {}

    def answer(*given: Any, **asked: Any) -> Any:
        about = key(*given, **asked)
        if about not in known:
            known[about] = original(*given, **asked)
        return known[about]

    patch.setattr(place, name, answer)


def _words(*given: Any, **asked: Any) -> str:
    """What a model is asked by: paths and plain values; texts of an encoder are none of these models'."""
    return repr((given, sorted((name, value) for name, value in asked.items() if value and name != "context")))


def _shape(config: Any, *_where: Any, **_asked: Any) -> str:
    return json.dumps(config, sort_keys=True)


def _listed(listed: Any, _spec: Any, widths: Any, **lengths: Any) -> tuple[int, str, str]:
    """The parameters are those of a cached shape, so that their place in memory names them."""
    return id(listed), repr(widths), repr(lengths)


def _of(source: ModelSource) -> tuple[str, str, bool, int | None]:
    return source.source, source.kind, source.trained, source.longest
