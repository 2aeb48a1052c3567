"""The golden vector of a function without states, made of its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from edgec.bundle.channels import SMALLEST_HALF, shared_axes, value_sizes
from edgec.bundle.golden import TOLERANCE, TOP, FunctionVector, GoldenFloats

# Between whole numbers.
_SAME = 0.5


def function_vector(
    bounds: Mapping[str, int],
    outputs: Mapping[str, GoldenFloats],
    relative_tolerance: float = TOLERANCE,
    simulated_share: float = 1.0,
    method: str = "",
    inputs: Sequence[tuple[Sequence[int], bool]] = (),
    counted: Collection[str] = (),
) -> FunctionVector:
    """A function vector from outputs by name; `TOP` values are probed, spread evenly over each.

    Args:
        bounds: for integer inputs, the number of values allowed.
        outputs: by name; only finite numbers are probed.
        relative_tolerance: share of each output's largest value.
        simulated_share: share of it where an interpreter executes the artifact.
        method: of several.
        inputs: shape of each input and whether it holds integers, as `shared_axes` reads them.
        counted: the outputs that hold integers or truth values, which are compared as they are.

    Raises:
        ValueError: an output has no finite value to probe, as one that is all NaN.
    """
    flat = {name: np.asarray(value, dtype=np.float64).ravel() for name, value in outputs.items()}
    indices = {name: _places(value) for name, value in flat.items()}
    tolerances = {name: float(relative_tolerance * np.abs(_finite(value)).max()) for name, value in flat.items()}
    channels = {
        name: [_SAME] * len(indices[name])
        if name in counted
        else _by_channel(value, indices[name], relative_tolerance, shared_axes(np.shape(value), inputs))
        for name, value in outputs.items()
    }
    return FunctionVector(
        method=method,
        bounds=dict(bounds),
        indices=indices,
        values={name: [float(flat[name][i]) for i in places] for name, places in indices.items()},
        tolerance=max(tolerances.values()),
        tolerances=tolerances,
        value_tolerances={name: each for name, each in channels.items() if min(each) < tolerances[name]},
        simulated_share=simulated_share,
    )


def _finite(values: GoldenFloats) -> GoldenFloats:
    return values[np.isfinite(values)]


def _places(values: GoldenFloats) -> list[int]:
    """The values to probe, where a mask left numbers."""
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        raise ValueError("the outputs must hold finite numbers")
    return sorted({int(known[int(i)]) for i in np.linspace(0, known.size - 1, TOP)})


def _by_channel(value: GoldenFloats, places: Sequence[int], share: float, shared: frozenset[int]) -> list[float]:
    """How far each probed value may move: a share of the output's size, and ten times that of its channel's spread."""
    values = np.where(np.isfinite(value), value, np.nan).astype(np.float64)
    most = share * float(np.abs(_finite(values)).max())
    sizes = value_sizes(values, shared, SMALLEST_HALF if value.dtype == np.float16 else 0.0).ravel()
    return [min(most, 10 * share * float(sizes[place])) for place in places]
