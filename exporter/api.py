"""``edgec.export``: one call from MODEL to a verified bundle."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import ParamSpec

from edgec.bundle.folder import write_bundle
from edgec.exporter.notebook_bar import notebook_listener
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Progress, silent
from edgec.exporter.recipes.support import STANDARD_KERNELS
from edgec.native_noise import native_noise_held
from edgec.quiet import quiet

P = ParamSpec("P")


@quiet()
def export_bundle(options: ExportOptions) -> Path:
    """Export a model to a bundle that an app can embed; every stage is checked against the one before it.

    Returns:
        The bundle's path.

    Raises:
        InputError: the model, an option or the output is at fault; nothing was written.
        BudgetError: E201 parity, E210 size, E220 fallback, E821 quality out of reach; nothing was written.
        ToolError: what the target needs is not installed; nothing was written.
    """
    from edgec.exporter.adapt.boundary import with_boundary
    from edgec.exporter.assemble.assemble import bundle_contents
    from edgec.exporter.bit_search.first_that_holds import compile_first_that_holds
    from edgec.exporter.bit_search.stage import with_bits
    from edgec.exporter.bit_search.until_it_holds import compile_until_it_holds, wanted_quality
    from edgec.exporter.calibration.stage import with_text
    from edgec.exporter.parity.advice import naming_recipes
    from edgec.exporter.resolve.resolved import resolve_options
    from edgec.exporter.stage_cache import StageCache

    unheard = options.progress is silent
    progress = Progress((notebook_listener() if unheard else None) or options.progress)
    progress.enter("resolve", str(options.model))
    resolved = resolve_options(options, progress)
    standard = resolved.request.recipe.kernels == STANDARD_KERNELS
    with StageCache() as cache, native_noise_held() if standard else nullcontext():
        request = with_text(resolved.request, cache, progress, searched=options.target_bits is not None)
        request = with_bits(with_boundary(request, progress), options.target_bits, cache, progress)
        wanted = wanted_quality(options, request)
        if wanted is None:
            request, compiled = compile_first_that_holds(request, cache, progress)
        else:
            with naming_recipes(request.recipe, request.target):
                request, compiled = compile_until_it_holds(request, wanted, cache, progress)
        progress.enter("bundle", str(resolved.out))
        name = resolved.out.name.removesuffix(".edgec")
        contents = bundle_contents(request, compiled, name, progress.seconds, cache, resolved.target_choice)
        write_bundle(resolved.out, *contents, options.force)
    progress.finish()
    return resolved.out


def _with_fields_of(make_options: Callable[P, ExportOptions]) -> Callable[P, Path]:
    """``export_bundle`` as a function of the fields of ExportOptions, so that these are declared only once."""

    def export(*args: P.args, **kwargs: P.kwargs) -> Path:
        return export_bundle(make_options(*args, **kwargs))

    doc = (
        f"{export_bundle.__doc__}\n\n    The arguments are the fields of ExportOptions:\n\n    {ExportOptions.__doc__}"
    )
    signature = inspect.signature(make_options).replace(return_annotation=Path)
    export.__qualname__, export.__doc__ = "export", doc
    export.__signature__ = signature  # type: ignore[attr-defined]
    return export


export = _with_fields_of(ExportOptions)
