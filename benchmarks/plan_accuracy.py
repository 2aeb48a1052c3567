"""The accuracy of `edgec plan` on devices that it has not seen: python -m benchmarks.plan_accuracy.

Leaves one device out at a time, predicts its published speeds from all others, and prints median errors and how often
the stated 80 % range held. `--leave-out chip` leaves out every device with that chip, so that no similar device informs
the prediction; `--leave-out model` leaves out one model on all devices.

`--asked` predicts as a user asks, by config, phone and bits through plan's own code (`benchmarks/asked.py`), instead of
from the bytes that a source published; `--unfitted` does so for published speeds that no calibration has seen.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log

from benchmarks.asked import Answer, answers, unfitted, without
from edgec.devices.prediction.calibration import Observation, observations
from edgec.devices.prediction.held_out import UNITS, Miss, nested_misses, speed
from edgec.devices.prediction.roof import roof

GOALS = {"decode": 0.15, "prefill": 0.20}
"""The median errors aimed at, on each unit."""

QUANTITIES = ("decode", "prefill")
LONG_PROMPT = 1000

_ENOUGH = 3
"""The fewest rows of one device and its kernels from which the device's own share is computed."""


@dataclass(frozen=True)
class Score:
    """The errors of one group of held-out measurements.

    Attributes:
        median_error: median of |predicted / measured - 1|.
        coverage: share of measurements inside the stated 80 % range.
        median_factor: the range's typical half width, as the factor from its middle to its ends.
        plain_error: median error of the simplest roofline, one share of the roof per unit (the others' median).
        own_error: median error if each device's own median share were known for its kernels, which no prediction
            without the device can be expected to beat; None where no device has enough rows.
    """

    name: str
    rows: int
    devices: int
    median_error: float
    coverage: float
    median_factor: float
    plain_error: float
    own_error: float | None


def accuracy(leave_out: str = "device") -> dict[str, Score]:
    """The scores by group name; "phones" (and boards) leaves laptops out of the scoring, not of the fit."""
    misses_of = {quantity: nested_misses(quantity, observations(), leave_out) for quantity in QUANTITIES}
    groups = [(f"{quantity} {unit}", _of_unit(misses_of[quantity], unit)) for quantity in QUANTITIES for unit in UNITS]
    every = [*misses_of["decode"], *misses_of["prefill"]]
    groups += [*misses_of.items(), *((unit, _of_unit(every, unit)) for unit in UNITS)]
    phones = [(f"{name}, phones", [m for m in group if not m.observation.workload.laptop]) for name, group in groups]
    long = [m for m in misses_of["prefill"] if (m.observation.prompt_tokens or 0) >= LONG_PROMPT]
    plain: dict[int, float] = {}
    own: dict[int, float] = {}
    for quantity in QUANTITIES:
        plain |= dict(_plain_errors(quantity, misses_of[quantity], leave_out))
        own |= dict(_own_errors(quantity, misses_of[quantity]))
    named = [*groups, *phones, (f"prefill of {LONG_PROMPT:,} tokens or more", long)]
    return {name: _score(name, misses, plain, own) for name, misses in named}


def _of_unit(misses: Sequence[Miss], unit: str) -> list[Miss]:
    return [miss for miss in misses if miss.observation.workload.unit == unit]


def _plain_errors(quantity: str, misses: Sequence[Miss], leave_out: str) -> Iterator[tuple[int, float]]:
    """(id of a miss, |predicted / measured - 1|) where the prediction is the median share of other devices' rows."""
    shares = [(miss.observation.workload, _log_share(quantity, miss)) for miss in misses]
    for miss, (work, share) in zip(misses, shares, strict=True):
        others = [s for w, s in shares if w.unit == work.unit and getattr(w, leave_out) != getattr(work, leave_out)]
        yield id(miss), abs(exp(statistics.median(others) - share) - 1)


def _own_errors(quantity: str, misses: Sequence[Miss]) -> Iterator[tuple[int, float]]:
    """As ``_plain_errors``, where the prediction is the median share of the device itself with the same kernels."""
    owners = {id(miss): (miss.observation.workload.device, miss.observation.workload.kernels) for miss in misses}
    shares: dict[tuple[str, str], list[float]] = {}
    for miss in misses:
        shares.setdefault(owners[id(miss)], []).append(_log_share(quantity, miss))
    for miss in misses:
        own = shares[owners[id(miss)]]
        if len(own) >= _ENOUGH:
            yield id(miss), abs(exp(statistics.median(own) - _log_share(quantity, miss)) - 1)


def _log_share(quantity: str, miss: Miss) -> float:
    measured = speed(miss.observation, quantity)
    assert measured is not None  # misses are of rows that measured this quantity
    return log(measured / roof(quantity, miss.observation.workload))


def _score(name: str, misses: Sequence[Miss], plain: Mapping[int, float], own: Mapping[int, float]) -> Score:
    known = [own[id(miss)] for miss in misses if id(miss) in own]
    return Score(
        name=name,
        rows=len(misses),
        devices=len({miss.observation.workload.device for miss in misses}),
        median_error=statistics.median(miss.relative_error for miss in misses),
        coverage=statistics.fmean(miss.covered for miss in misses),
        median_factor=exp(statistics.median(miss.width * miss.deviation for miss in misses)),
        plain_error=statistics.median(plain[id(miss)] for miss in misses),
        own_error=statistics.median(known) if known else None,
    )


def table(scores: dict[str, Score]) -> str:
    """The scores as a Markdown table."""
    heads = (
        "held out",
        "rows",
        "devices",
        "median error",
        "goal",
        "80 % range held",
        "typical range",
        "one share per unit",
        "its own share",
    )
    return _markdown(heads, map(_cells, scores.values()))


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def goal_of(name: str) -> float | None:
    """The goal of a group of rows; None for groups over both quantities, and for long prompts."""
    words = name.removesuffix(", phones").split(" ")
    return GOALS.get(words[0]) if len(words) <= len(("decode", "cpu")) else None


def _shown_goal(name: str) -> str:
    goal = goal_of(name)
    return f"{goal:.0%}" if goal else ""


def _cells(score: Score) -> Sequence[object]:
    return (
        score.name,
        score.rows,
        score.devices,
        f"{score.median_error:.1%}",
        _shown_goal(score.name),
        f"{score.coverage:.0%}",
        f"×/÷ {score.median_factor:.2f}",
        f"{score.plain_error:.1%}",
        "" if score.own_error is None else f"{score.own_error:.1%}",
    )


@dataclass(frozen=True)
class AskedScore:
    """The errors of plan's answers to one group of published rows.

    Attributes:
        answered: rows that plan gives a speed for; it gives none where nothing of a unit's kind was measured.
        median_factor: half the width of the range, as a factor.
    """

    name: str
    rows: int
    answered: int
    median_error: float
    coverage: float
    median_factor: float


def asked_scores(leave_out: str | None) -> list[AskedScore]:
    """Plan's answers by quantity and unit, each row's device, chip or model left out; None: on unfitted rows."""
    fitted, scores = observations(), []
    rows = unfitted() if leave_out is None else fitted
    known = (lambda _: fitted) if leave_out is None else without(fitted, leave_out)
    for quantity in QUANTITIES:
        given = list(answers(quantity, rows, known))
        for unit, phones in [(unit, phones) for unit in UNITS for phones in (False, True)]:
            name = f"{quantity} {unit}" + ", phones" * phones
            asked = [row for row in rows if _belongs(row, unit, phones) and speed(row, quantity) is not None]
            scores.append(_asked_score(name, asked, [each for each in given if _belongs(each.row, unit, phones)]))
    return scores


def _belongs(row: Observation, unit: str, phones: bool) -> bool:
    return row.workload.unit == unit and not (phones and row.workload.laptop)


def _asked_score(name: str, asked: Sequence[Observation], given: Sequence[Answer]) -> AskedScore:
    return AskedScore(
        name=name,
        rows=len(asked),
        answered=len(given),
        median_error=statistics.median(each.relative_error for each in given),
        coverage=statistics.fmean(each.inside for each in given),
        median_factor=statistics.median(each.factor for each in given),
    )


def asked_table(scores: Sequence[AskedScore]) -> str:
    """Plan's answers as a Markdown table."""
    heads = ("asked", "rows", "answered", "median error", "goal", "80 % range held", "typical range")
    return _markdown(heads, map(_asked_cells, scores))


def _asked_cells(score: AskedScore) -> Sequence[object]:
    return (
        score.name,
        score.rows,
        score.answered,
        f"{score.median_error:.1%}",
        _shown_goal(score.name),
        f"{score.coverage:.0%}",
        f"×/÷ {score.median_factor:.2f}",
    )


def by_chip(leave_out: str = "device") -> str:
    """The median error and its direction for each chip, since the overall median hides bad ones."""
    lines = ["| chip | quantity | rows | median error | predicted / measured |", "|---|---|---|---|---|"]
    for quantity in QUANTITIES:
        misses = nested_misses(quantity, observations(), leave_out)
        for key in sorted({_chip_and_unit(miss) for miss in misses}):
            lines.append(_chip_line(key, quantity, [miss for miss in misses if _chip_and_unit(miss) == key]))
    return "\n".join(lines)


def _chip_line(key: tuple[str, str], quantity: str, misses: Sequence[Miss]) -> str:
    error = statistics.median(miss.relative_error for miss in misses)
    ratio = exp(-statistics.median(miss.log_error for miss in misses))
    return f"| {key[0]} | {quantity} {key[1]} | {len(misses)} | {error:.0%} | {ratio:.2f} |"


def _chip_and_unit(miss: Miss) -> tuple[str, str]:
    return miss.observation.workload.chip, miss.observation.workload.unit


def main(write: Callable[[str], None] = print) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--leave-out", choices=("device", "chip", "model"), default="device")
    parser.add_argument("--by-chip", action="store_true", help="also the error of every chip")
    parser.add_argument("--asked", action="store_true", help="by config, phone and bits, through plan's own code")
    parser.add_argument("--unfitted", action="store_true", help="the same for speeds that no calibration has seen")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.asked or options.unfitted:
        write(asked_table(asked_scores(None if options.unfitted else options.leave_out)))
        return
    scores = accuracy(options.leave_out)
    write(json.dumps({k: asdict(s) for k, s in scores.items()}) if options.json else table(scores))
    if options.by_chip:
        write("\n" + by_chip(options.leave_out))


if __name__ == "__main__":
    main()
