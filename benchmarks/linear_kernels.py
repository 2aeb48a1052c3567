"""Kernels of linear layers of few bits, one thread: python -m benchmarks.linear_kernels [--json] [--plot FILE.svg].

``linear_kernels.cpp`` is compiled with the kernels' sources, as the runner compiles them. For each shape, scheme and
number of tokens every kernel that this processor can execute takes turns with plain reading of the same bytes. A rate
is multiply-adds of the layer, its tokens' quantisation included, over CPU time of the thread: median and deciles. On a
busy machine that time is too long rather than too short, since others take caches and memory bandwidth. The plain
kernel runs one token only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.runtime_py.svg import Series

SOURCE = Path(__file__).with_suffix(".cpp")
TOKENS = (1, 2, 4, 8, 16, 64, 512)
READ = "read"


@dataclass(frozen=True)
class Scheme:
    """How values become codes: value = step * code - offset, times the scale of its group (0: of its row).

    ``scales`` names what stands beside the codes, minimums included (engine/kernels/linear/matrix.h).
    """

    name: str
    bits: int
    step: int
    offset: int
    group: int
    scales: str


@dataclass(frozen=True)
class Shape:
    """A layer of the shape of one of Qwen3-0.6B, and the numbers of tokens it is measured with."""

    rows: int
    width: int
    tokens: tuple[int, ...] = TOKENS


SCHEMES = (
    Scheme("4 bits, groups of 32", 4, 1, 8, 32, "bfloat16"),
    Scheme("4 bits, minimums", 4, 1, 0, 32, "six_bits"),
    Scheme("3 bits, groups of 32", 3, 1, 4, 32, "bfloat16"),
    Scheme("3 bits, minimums", 3, 1, 0, 32, "six_bits"),
    Scheme("5 bits, minimums", 5, 1, 0, 32, "six_bits"),
    Scheme("6 bits, minimums", 6, 1, 0, 32, "six_bits"),
    Scheme("2 bits, groups of 64", 2, 2, 3, 64, "bfloat16"),
    Scheme("2 bits per row", 2, 2, 3, 0, "row"),
    Scheme("8 bits, groups of 32", 8, 1, 128, 32, "float16"),
    Scheme("8 bits per row", 8, 1, 128, 0, "row"),
)
# The last is the lm_head, which lies in memory rather than in a cache; prefill needs one token of it.
SHAPES = (Shape(1024, 3072), Shape(3072, 1024), Shape(2048, 1024), Shape(151936, 1024, TOKENS[:5]))


@dataclass(frozen=True)
class Row:
    """The figures of one variant in one case.

    Attributes:
        variant: a kernel's name, "quantize" and a kernel's name, or "read".
        bytes: size of the matrix.
        median_s: CPU time of one call.
        p10_s: the fastest tenth.
        p90_s: the slowest tenth.
        least_s: the fastest call.
    """

    rows: int
    width: int
    bits: int
    step: int
    group: int
    scales: str
    tokens: int
    bytes: int
    variant: str
    median_s: float
    p10_s: float
    p90_s: float
    least_s: float

    def gmacs(self, seconds: float) -> float:
        """Billions of multiply-adds per second."""
        return self.rows * self.width * self.tokens / seconds / 1e9


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of every variant per case")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--plot", type=Path, help="write the best kernel's rates under the roof of memory as SVG")
    options = parser.parse_args(arguments)
    result = measure(options.rounds)
    if options.plot:
        options.plot.write_text(roofline(result))
    print(json.dumps(result, indent=1) if options.json else table(result))


def measure(rounds: int, shapes: Sequence[Shape] = SHAPES, schemes: Sequence[Scheme] = SCHEMES) -> dict[str, Any]:
    """Measure one row per variant and case."""
    from benchmarks.harness.machine import host_facts
    from benchmarks.harness.processes import run

    lines = [
        f"{shape.rows} {shape.width} {scheme.bits} {scheme.step} {scheme.offset} {scheme.group} {scheme.scales} {count}"
        for scheme in schemes
        for shape in shapes
        for count in shape.tokens
    ]
    with TemporaryDirectory() as folder:
        cases = Path(folder) / "cases"
        cases.write_text("\n".join(lines))
        printed = run([_compiled(Path(folder)), str(rounds), cases]).stdout
    rows = [Row(**json.loads(line)) for line in printed.splitlines()]
    facts = host_facts()
    return {
        "cpu": facts.cpu,
        "load_average": facts.load_average,
        "rounds": rounds,
        "rows": [asdict(row) for row in rows],
    }


def _compiled(folder: Path) -> Path:
    from edgec.engine.compile.build import find_toolchain
    from edgec.engine.compile.cmake import CMakeProject

    project = CMakeProject(SOURCE.parent, folder / "build", find_toolchain().definitions())
    project.configure()
    project.compile(lambda done, files: None, SOURCE.stem)
    return project.folder / SOURCE.stem


def table(result: dict[str, Any]) -> str:
    """The result as one text table per scheme: rates of each kernel with deciles, and the rate of reading."""
    rows = [Row(**fields) for fields in result["rows"]]
    load = result["load_average"]
    lines = [
        f"{result['cpu']}, one thread, load average {load}, median GMAC/s [p10 .. p90] of {result['rounds']} turns"
    ]
    for scheme in SCHEMES:
        chosen = [row for row in rows if _is_of(row, scheme)]
        lines += _scheme_table(scheme.name, chosen)
    return "\n".join(lines)


def roofline(result: dict[str, Any]) -> str:
    """Plot rates of the best kernel against multiply-adds per byte of weights, and the rate at which memory feeds them.

    The lm_head is read from memory; a smaller matrix lies in a cache, and may be above that roof.
    """
    from edgec.runtime_py.svg import Series, log_chart, stack

    rows = [Row(**fields) for fields in result["rows"]]
    best = next(row.variant for row in rows if row.variant != READ)
    series = []
    for scheme in SCHEMES:
        for shape in (SHAPES[1], SHAPES[-1]):
            chosen = [r for r in rows if _is_of(r, scheme) and (r.rows, r.width) == (shape.rows, shape.width)]
            series.append(_points(scheme, shape, [row for row in chosen if row.variant == best]))
    reads = [row.bytes / row.median_s / 1e9 for row in rows if row.variant == READ and row.rows == SHAPES[-1].rows]
    bandwidth = sorted(reads)[len(reads) // 2]
    highest = max(y for each in series for y in each.y)
    roof = Series(f"roof, {bandwidth:.0f} GB/s", (1.0, highest / bandwidth), (bandwidth, highest), dashed=True)
    title = f"Linear layers, {best}, one thread ({result['cpu']}, measured)"
    return stack([log_chart(title, "multiply-adds per byte of weights", "GMAC/s", [roof, *series])])


def _is_of(row: Row, scheme: Scheme) -> bool:
    return (row.bits, row.group, row.scales) == (scheme.bits, scheme.group, scheme.scales)


def _points(scheme: Scheme, shape: Shape, rows: Sequence[Row]) -> Series:
    from edgec.runtime_py.svg import Series

    per_byte = tuple(row.tokens * row.rows * row.width / row.bytes for row in rows)
    place = "memory" if shape is SHAPES[-1] else "cache"
    return Series(f"{scheme.name}, {place}", per_byte, tuple(row.gmacs(row.median_s) for row in rows))


def _scheme_table(name: str, rows: Sequence[Row]) -> Iterator[str]:
    kernels = list(dict.fromkeys(row.variant for row in rows if row.variant != READ and " " not in row.variant))
    yield ""
    yield f"{name:22s} tokens " + "".join(f"{kernel:>24s}" for kernel in kernels) + "   read GB/s  quantise us/token"
    cases: dict[tuple[int, int, int], dict[str, Row]] = {}
    for row in rows:
        cases.setdefault((row.rows, row.width, row.tokens), {})[row.variant] = row
    for (height, width, tokens), variants in cases.items():
        read = variants[READ]
        cells = "".join(f"{_rate(variants.get(kernel)):>24s}" for kernel in kernels)
        quantise = variants[f"quantize {kernels[0]}"].median_s / tokens * 1e6
        size = f"{height} x {width}"
        yield f"{size:22s} {tokens:6d} {cells} {read.bytes / read.median_s / 1e9:11.1f} {quantise:18.2f}"


def _rate(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.gmacs(row.median_s):.1f} [{row.gmacs(row.p90_s):.1f} .. {row.gmacs(row.p10_s):.1f}]"


if __name__ == "__main__":
    main()
