"""Which kind of server a loaded bundle gets."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.runtime_py.adapters.adapter_file import Adapter
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.adapters import fitting
from edgec.runtime_py.serve.hosted import Hosted
from edgec.runtime_py.serve.hosted_encoder import HostedEncoder
from edgec.runtime_py.serve.hosted_listener import HostedListener
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.rerank import HostedRanker

Served = Hosted | HostedEncoder | HostedListener | HostedRanker
"""A bundle of any kind that is served."""


def hosted_of(model: Model, limits: ServeLimits, adapters: Mapping[str, Adapter] | None = None) -> Served:
    """Host a loaded bundle.

    Raises:
        InputError: E155, it is of no kind that is served; E158, it has no tokenizer; E645, its state exceeds the
            memory given; E695, E696, E700, an adapter cannot be served.
    """
    if model.embeds:
        return HostedEncoder(model, limits)
    if model.is_cross_encoder:
        return HostedRanker(model, limits)
    if model.transcribes:
        return HostedListener(model, limits)
    return Hosted(model, limits, fitting(adapters or {}, model))


def takes_media(one: Served) -> bool:
    """Whether requests for it may bring images or sounds."""
    if not isinstance(one, Hosted):
        return isinstance(one, HostedListener)
    manifest = one.model.bundle.manifest
    return manifest.vision_language is not None or manifest.audio_language is not None
