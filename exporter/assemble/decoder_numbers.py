"""The numbers of a decoder for its manifest, from the shapes of its parameters."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from edgec.bundle.decoder_numbers import AlikeLayers, DecoderNumbers
from edgec.devices.prediction.parameters import Kind
from edgec.devices.prediction.shared_layers import prompt_share, without_shared
from edgec.exporter.dimensions.parameters import listed_parameters
from edgec.exporter.resolve.widths import recipe_widths
from edgec.exporter.sources.hf_config import DECODER
from edgec.ir.kv_donors import shared_spec
from edgec.ir.spec import LayerSpec, ModelSpec

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest


def decoder_numbers(request: ExportRequest) -> DecoderNumbers | None:
    """Layers and parameters as the artifact has them; None for models that are not plain decoders."""
    source = request.source
    if source.kind != DECODER:
        return None
    spec = request.spec
    listed = listed_parameters(source.build_on("meta"), source.config)
    boundary = recipe_widths(request.recipe).kv_boundary
    if boundary is not None:
        shared = shared_spec(spec, boundary)
        spec, listed = shared, without_shared(listed, spec, shared)
    matrices = sum(each.count * each.active for each in listed if each.kind is Kind.LINEAR)
    return DecoderNumbers(
        layers=_alike(spec),
        matrices=int(matrices),
        prompt_matrices=int(matrices * prompt_share(listed, spec)),
        lm_head=sum(each.count for each in listed if each.kind is Kind.LM_HEAD),
    )


def _alike(spec: ModelSpec) -> list[AlikeLayers]:
    def shape(layer: LayerSpec) -> tuple[int, int, int, int | None, int | None]:
        return layer.heads, layer.kv_heads, layer.head_dim, layer.window, layer.kv_donor

    runs = [(one, len(list(layers))) for one, layers in groupby(spec.layers, shape)]
    return [
        AlikeLayers(count=count, heads=heads, kv_heads=kv, head_dim=width, window=window, kv_donor=donor)
        for (heads, kv, width, window, donor), count in runs
    ]
