"""The adapters that an artifact gets functions for: read, and held against target, recipe and model before any work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.backends.forms import Form
from edgec.devices.prediction.parameters import DecoderShape
from edgec.errors import InputError
from edgec.exporter.options import parse_adapters
from edgec.exporter.recipes.recipe import Recipe
from edgec.runtime_py.adapters.make import check_fit, no_target
from edgec.runtime_py.adapters.peft_folder import PeftFolder, folder_digest, read_peft

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource


@dataclass(frozen=True)
class NamedLora:
    """An adapter to export: its name, what its folder holds, and sha256 (hex) over the folder's files.

    ``folder`` is left out of comparisons: the digest stands for it.
    """

    name: str
    folder: PeftFolder
    digest: str

    @property
    def scales(self) -> dict[str, float]:
        """The factor of each module's change."""
        return {module.name: self.folder.settings.scale_of(module.name) for module in self.folder.modules}

    def bytes(self, item_bytes: int) -> int:
        """The bytes of its A and B at so many bytes a number."""
        sides = (side for module in self.folder.modules for side in (module.a, module.b))
        return sum(item_bytes * side.shape[0] * side.shape[1] for side in sides)


def read_loras(given: Mapping[str, str | Path] | None) -> tuple[NamedLora, ...]:
    """Read the folders of adapters.

    Raises:
        InputError: E691, E692.
    """
    return tuple(
        NamedLora(name, read_peft(Path(path)), folder_digest(Path(path))) for name, path in (given or {}).items()
    )


def with_adapters(shape: DecoderShape, given: Sequence[str], form: Form) -> DecoderShape:
    """A model's shape with the bytes of adapters, each ``NAME=FOLDER``, for the forecast of an artifact of a form.

    Raises:
        InputError: E691, E692, E764, E765.
    """
    check_form(given, form)
    added = sum(lora.bytes(2 if form.half else 4) for lora in read_loras(parse_adapters(given)))
    return replace(shape, adapter_bytes=added)


def check_form(given: Collection[object] | None, form: Form) -> None:
    """Refuse adapters where the format has no functions for them.

    Raises:
        InputError: E765.
    """
    if given and form.unadapted:
        raise InputError(
            f"{form.artifact} has no functions under adapters here.",
            where="--adapter",
            why=form.unadapted,
            fix="leave --adapter out, or export for an iPhone's Neural Engine (--target iphone)",
            code="E765",
        )


def check_adaptable(names: Mapping[str, object] | None, form: Form, recipe: Recipe) -> None:
    """Refuse adapters where the format has no functions for them, or where the recipe changes the matrices' bases.

    Raises:
        InputError: E765, E766.
    """
    check_form(names, form)
    if names and recipe.prepare:
        raise InputError(
            "These matrices are not those that an adapter was trained for.",
            where=f"recipe {recipe.name}, prepare",
            why=f"{' and '.join(recipe.prepare)} gives matrices another basis than the model's",
            fix="leave prepare out of the recipe, or leave --adapter out",
            code="E766",
        )


def check_modules(loras: tuple[NamedLora, ...], source: ModelSource) -> None:
    """Hold every module of the adapters against the model: it is a linear layer, and A and B fit its matrix.

    Raises:
        InputError: E693, E694, E765.
    """
    if not loras:
        return
    if source.kind != "decoder":
        raise InputError(
            "Only decoders are exported with adapters.",
            where="--adapter",
            why=f"{source.source} is a model of another kind: {source.kind}",
            fix="leave --adapter out",
            code="E765",
        )
    sizes = _matrix_sizes(source.build_on("meta"))
    for lora in (each.folder for each in loras):
        unknown = [module.name for module in lora.modules if module.name not in sizes]
        if unknown:
            raise no_target(lora, unknown, "the model has no linear layers of these names")
        for module in lora.modules:
            check_fit(lora, module, *sizes[module.name])


def _matrix_sizes(model: Any) -> dict[str, tuple[int, int]]:
    """Rows and width of the linear layers by name; GPT-2's ``Conv1D`` holds its matrix the other way round."""
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    layers = [(name, each) for name, each in model.named_modules() if isinstance(each, Linear | Conv1D)]
    return {name: _rows_and_width(each.weight.shape, turned=isinstance(each, Conv1D)) for name, each in layers}


def _rows_and_width(shape: Sequence[int], turned: bool) -> tuple[int, int]:
    first, second = shape
    return (second, first) if turned else (first, second)
