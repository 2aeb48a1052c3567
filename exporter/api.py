"""``edgec.export``: one call from MODEL to a verified bundle."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

from edgec.bundle.folder import write_bundle
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Progress
from edgec.quiet import quiet

P = ParamSpec("P")


@quiet()
def export_bundle(options: ExportOptions) -> Path:
    """Export a model to a bundle that an app embeds; every stage is compared with the one before it.

    Returns:
        The bundle's path.

    Raises:
        InputError: the model, an option or the output is at fault; nothing was written.
        BudgetError: E201 parity, E210 size, E220 fallback; nothing was written.
        ToolError: what the target needs is not installed; nothing was written.
    """
    from edgec.exporter.adapt.boundary import with_boundary
    from edgec.exporter.assemble.assemble import bundle_contents
    from edgec.exporter.bit_search.stage import with_bits
    from edgec.exporter.pipeline import compile_model
    from edgec.exporter.recipes.advice import naming_recipes
    from edgec.exporter.resolve.resolved import resolve_options
    from edgec.exporter.stage_cache import StageCache

    progress = Progress(options.progress)
    progress.enter("resolve", str(options.model))
    asked = resolve_options(options)
    with StageCache() as cache:
        request = with_bits(with_boundary(asked.request, progress), options.target_bits, cache, progress)
        with naming_recipes(request.recipe, request.target):
            compiled = compile_model(request, cache, progress)
        progress.enter("bundle", str(asked.out))
        name = asked.out.name.removesuffix(".edgec")
        contents = bundle_contents(request, compiled, name, progress.seconds, cache, asked.target_choice)
        write_bundle(asked.out, *contents, options.force)
    progress.finish()
    return asked.out


def _called_with(fields: Callable[P, ExportOptions], run: Callable[[ExportOptions], Path]) -> Callable[P, Path]:
    """A function of the options' fields, so that they are declared once."""

    @wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> Path:
        return run(fields(*args, **kwargs))

    call.__name__ = call.__qualname__ = "export"
    call.__doc__ = f"{run.__doc__}\n\n    The arguments are the fields of ExportOptions:\n\n    {ExportOptions.__doc__}"
    call.__signature__ = inspect.signature(fields)  # type: ignore[attr-defined]
    return call


export = _called_with(ExportOptions, export_bundle)
