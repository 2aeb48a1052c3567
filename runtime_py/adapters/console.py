"""The output of ``edgec adapter``: what was made, or one JSON object."""

from __future__ import annotations

import json

from edgec.runtime_py.adapters.make import MadeAdapter


def print_made(made: MadeAdapter, as_json: bool) -> None:
    """Print an adapter's path, size, modules, ranks and the model that it was trained for."""
    modules = made.adapter.modules
    ranks, dtypes = sorted({m.rank for m in modules}), sorted({t.dtype for t in made.adapter.tensors.values()})
    if as_json:
        facts = {"adapter": str(made.path), "bytes": made.bytes, "modules": [m.name for m in modules], "ranks": ranks}
        facts |= {"dtypes": dtypes, "base": made.adapter.base, "trained_on": made.adapter.trained_on}
        print(json.dumps(facts | {"digest": made.adapter.digest}, ensure_ascii=False))
        return
    kinds = ", ".join(sorted({module.name.rpartition(".")[2] for module in modules}))
    print(f"adapter    {made.path}  {made.bytes:,} bytes, {'/'.join(dtypes)}")
    print(f"modules    {len(modules)}: {kinds}; rank {', '.join(map(str, ranks))}")
    print(f"trained on {made.adapter.trained_on or 'unknown'} (as PEFT's folder says)")
    print(f"base       {made.adapter.base[:12]}, the sha256 of the bundle's artifact")
