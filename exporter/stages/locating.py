"""Find the first layer at which a lowered artifact differs from its graph, by lowering it with its layers exposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.exporter.parity.divergence import (
    Layers,
    artifact_layers,
    call_layers,
    expose_layers,
    first_diverging_layer,
)
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.ir.program import Program

# Relative: the least that is another computation, not another rounding of the same one.
_TOLERANCE = 0.1


def locate_in_artifact(program: Program, calls: Sequence[ProbeCall], lower: Callable[[Program], bytes]) -> int | None:
    """The first layer whose attention differs between a graph and its artifact.

    Args:
        program: the graph.
        calls: what both are fed.
        lower: makes an artifact of the program that returns its layers after its own outputs.
    """
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    def inside(artifact: Path, exposed: Program) -> Layers:
        return artifact_layers(TorchMethod(artifact), exposed, calls)

    return first_layer_lowered_otherwise(program, call_layers(program, calls), inside, lower)


def first_layer_lowered_otherwise(
    program: Program,
    wanted: Layers,
    inside: Callable[[Path, Program], Layers],
    lower: Callable[[Program], bytes],
) -> int | None:
    """The first layer of an artifact that differs.

    Args:
        program: the graph.
        wanted: what its layers give.
        inside: what those of an artifact give, which was lowered from a program of ``expose_layers``.
        lower: makes that artifact.
    """
    exposed = expose_layers(program)
    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "exposed.pte"
        artifact.write_bytes(lower(exposed))
        return first_diverging_layer(wanted, inside(artifact, exposed), _TOLERANCE)
