"""The main table's rows: integers, look-up tables and ternary weights, round-to-nearest against each algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.quality_parts.measure import Reference, Row
from benchmarks.quality_parts.rounding import Way, integers, rounded, tables, ternary

if TYPE_CHECKING:
    from benchmarks.quality_parts.subjects import Subject
    from edgec.ir.program import Program
    from edgec.passes.contract import Pass


@dataclass(frozen=True)
class Case:
    """A form of weights and a way of rounding to it.

    Attributes:
        form: how weights are stored.
        algorithm: the name in the table.
        way: rounds a matrix.
        prepare: exact rewrites before the rounding: ``rotate``, ``awq``.
        bits, group: the form that ``awq`` tries its scales on.
    """

    form: str
    algorithm: str
    way: Way
    prepare: tuple[str, ...] = ()
    bits: int = 4
    group: int = 32


def cases() -> Iterator[Case]:
    """All cases, from many bits to few."""
    yield from _integer_cases(8, 0, ("rtn", "hqq", "mse", "gptq"))
    for bits in (4, 3, 2):
        yield from _integer_cases(bits, 32, ("rtn", "hqq", "mse", "gptq"))
        yield from _integer_cases(bits, 0, ("rtn", "mse", "gptq"))
        yield from _table_cases(bits)
    for group in (32, 0):
        yield from _ternary_cases(group)


def _share(group: int) -> str:
    return f"groups of {group}" if group else "per channel"


def _integer_cases(bits: int, group: int, algorithms: Sequence[str]) -> Iterator[Case]:
    from edgec.ir.weight_scheme import WeightScheme

    form = f"{bits}-bit integers, {_share(group)}"
    scheme = WeightScheme(bits, group, scale_bits=16)
    for algorithm in algorithms:
        yield Case(form, algorithm.upper(), integers(scheme, algorithm), (), bits, group)
    for prepare in (("awq",), ("rotate",)) if bits < 8 else ():
        for algorithm in ("rtn", "gptq"):
            name = f"{' + '.join(prepare)} + {algorithm}".upper()
            yield Case(form, name.replace("ROTATE", "rotation"), integers(scheme, algorithm), prepare, bits, group)


def _table_cases(bits: int) -> Iterator[Case]:
    from edgec.ir.weight_scheme import lut

    form = f"{bits}-bit look-up tables for 8 channels"
    names = {"k-means": "k-means", "weighted": "k-means, weighted by inputs", "gptq": "k-means, GPTQ"}
    for algorithm, name in names.items():
        yield Case(form, name, tables(lut(bits, 8), algorithm))
    yield Case(form, "rotation + k-means, GPTQ", tables(lut(bits, 8), "gptq"), ("rotate",))


def _ternary_cases(group: int) -> Iterator[Case]:
    form = f"ternary, {_share(group)}"
    for algorithm, name in {"rtn": "mean magnitude", "mse": "least squares", "gptq": "least squares, GPTQ"}.items():
        yield Case(form, name, ternary(group or 1 << 30, algorithm))
    yield Case(form, "rotation + least squares, GPTQ", ternary(group or 1 << 30, "gptq"), ("rotate",))


def rows(reference: Reference, only: str = "") -> Iterator[Row]:
    """Measure the cases whose form or algorithm contains ``only``."""
    subject = reference.subject
    yield reference.compare(reference.windows, "float32", "", 32.0)
    for case in cases():
        if only in f"{case.form} {case.algorithm}":
            changed, bits = rounded(prepared(subject, case), subject, case.way)
            yield reference.row(changed, case.form, case.algorithm, bits)


def prepared(subject: Subject, case: Case) -> Program:
    """The float program after the exact rewrites of a case."""
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.contract import run_passes
    from edgec.passes.equalise.rotate import Rotate
    from edgec.passes.equalise.scale_migration import ScaleMigration

    scheme = WeightScheme(case.bits, case.group)
    rewrites: list[Pass] = [
        Rotate() if name == "rotate" else ScaleMigration(name, scheme, subject.calibration) for name in case.prepare
    ]
    return run_passes(subject.program, rewrites)
