"""Numbers of JSON within bounds as terms over their digits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final

from edgec.exporter.schemas.regular import Regular, RegularPool

_FIRST_DIGIT: Final = 0x30


@dataclass(frozen=True)
class Bound:
    """One end of a range."""

    value: Decimal
    open: bool = False

    def negated(self) -> Bound:
        """The same end of the range's mirror image."""
        return Bound(-self.value, self.open)


@dataclass(frozen=True)
class Bounds:
    """The range of a number; None where it has no such end."""

    low: Bound | None = None
    high: Bound | None = None

    @classmethod
    def of(cls, node: dict[str, Any]) -> Bounds:
        """The range that a schema's keywords say."""
        lows = _ends(node, "minimum", "exclusiveMinimum")
        highs = _ends(node, "maximum", "exclusiveMaximum")
        low = max(lows, key=lambda end: (end.value, end.open), default=None)
        return cls(low, min(highs, key=lambda end: (end.value, not end.open), default=None))

    def whole(self) -> Bounds:
        """The same range for whole numbers, its ends within it."""
        low = None if self.low is None else _up(self.low)
        high = None if self.high is None else _up(self.high.negated()).negated()
        return Bounds(low, high)


def _ends(node: dict[str, Any], closed: str, opened: str) -> list[Bound]:
    return [Bound(Decimal(repr(node[key])), key == opened) for key in (closed, opened) if key in node]


def _up(low: Bound) -> Bound:
    value = low.value.to_integral_value(ROUND_CEILING)
    return Bound(value + 1 if low.open and low.value.to_integral_value(ROUND_FLOOR) == low.value else value)


class Numerals:
    """Terms of numerals in one pool."""

    def __init__(self, pool: RegularPool) -> None:
        """Begin with the terms of digits."""
        self._pool = pool
        self._digit, self._point = self._digits(0, 9), pool.text(b".")
        self._minus = pool.text(b"-")
        self._natural = pool.either(pool.text(b"0"), pool.then(self._digits(1, 9), pool.repeat(self._digit)))
        self._fraction = pool.then(self._point, pool.repeat(self._digit, 1))

    def _digits(self, low: int, high: int) -> Regular:
        return self._pool.one_of(sum(1 << _FIRST_DIGIT + digit for digit in range(low, high + 1)))

    def integer(self, bounds: Bounds) -> Regular:
        """Whole numbers of a range."""
        bounds = bounds.whole()
        if bounds == Bounds():
            return self._pool.then(self._sign(), self._natural)
        # As the engine of `edgec run` has it: -0 is a whole number where the range holds numbers on both sides of 0.
        return self._signed(bounds, fractions=False, negative_zero=True)

    def number(self, bounds: Bounds) -> Regular:
        """Numbers of a range; with an exponent only where there is none."""
        if bounds == Bounds():
            pool = self._pool
            exponent = pool.then(
                pool.one_of(1 << ord("e") | 1 << ord("E")),
                pool.repeat(pool.one_of(1 << ord("+") | 1 << ord("-")), 0, 1),
                pool.repeat(self._digit, 1),
            )
            optional = [pool.repeat(part, 0, 1) for part in (self._fraction, exponent)]
            return pool.then(self._sign(), self._natural, *optional)
        return self._signed(bounds, fractions=True, negative_zero=False)

    def _sign(self) -> Regular:
        return self._pool.repeat(self._minus, 0, 1)

    def _signed(self, bounds: Bounds, fractions: bool, negative_zero: bool) -> Regular:
        low, high = bounds.low, bounds.high
        if low and high and low.value == high.value and not low.open and not high.open:
            whole, rest = _parts(low.value)
            return self._pool.text(("-" * (low.value < 0) + ".".join([whole, rest] if rest else [whole])).encode())
        upper = self._unsigned(low if low and low.value >= 0 else Bound(Decimal(0)), high, fractions)
        if low is not None and low.value >= 0:
            return upper
        crosses = high is None or high.value >= 0
        both = low is not None and high is not None
        closest = Bound(Decimal(0), not (negative_zero and both)) if crosses or high is None else high.negated()
        lower = self._unsigned(closest, low.negated() if low else None, fractions)
        # -0 is a number where the least one is a fraction above -1 and 0 lies within the range.
        zero = crosses and not (high and high.open and high.value == 0)
        small = [self._pool.text(b"-0")] if fractions and zero and low is not None and low.value > -1 else []
        return self._pool.either(upper, self._pool.then(self._minus, lower), *small)

    def _unsigned(self, low: Bound, high: Bound | None, fractions: bool) -> Regular:
        """Numerals without a sign from ``low``, at least 0, to ``high``."""
        if high is not None and high.value < 0:
            return self._pool.nothing
        above = self._beyond(low, fractions)
        if fractions and low.open and high is not None and _parts(low.value) == (_parts(high.value)[0], ""):
            # As the engine has it: zeros may end a number where the first decimal is not 0.
            first = self._pool.then(self._digits(1, 9), self._pool.repeat(self._digit))
            above = self._pool.either(
                above, self._pool.then(self._pool.text(_parts(low.value)[0].encode() + b"."), first)
            )
        return above if high is None else self._pool.both(above, self._within(high, fractions))

    def _beyond(self, low: Bound, fractions: bool) -> Regular:
        pool, (whole, rest) = self._pool, _parts(low.value)
        tail = pool.repeat(self._fraction, 0, 1) if fractions else pool.empty
        any_digits = pool.repeat(self._digit)
        longer = pool.then(self._digits(1, 9), pool.repeat(self._digit, len(whole)))
        larger = [pool.then(part, tail) for part in (longer, *self._differing(whole, above=True))]
        if not fractions:
            return pool.either(*larger, *([] if low.open else [pool.text(whole.encode())]))
        fraction = [pool.then(part, any_digits) for part in self._differing(rest, above=True, padded=False)]
        if low.open:
            fraction.append(pool.then(pool.text(rest.encode()), any_digits, self._digits(1, 9)))
        else:
            fraction.append(pool.then(pool.text(rest.encode()), any_digits if rest else pool.repeat(self._digit, 1)))
        ends = pool.then(pool.text(whole.encode()), self._point, pool.either(*fraction))
        alone = [pool.text(whole.encode())] if not rest and not low.open else []
        return pool.either(*larger, ends, *alone)

    def _within(self, high: Bound, fractions: bool) -> Regular:
        pool, (whole, rest) = self._pool, _parts(high.value)
        tail = pool.repeat(self._fraction, 0, 1) if fractions else pool.empty
        shorter = [pool.text(b"0")] if len(whole) > 1 else []
        if len(whole) > 1:
            shorter.append(pool.then(self._digits(1, 9), pool.repeat(self._digit, 0, len(whole) - 2)))
        smaller = [pool.then(part, tail) for part in (*shorter, *self._differing(whole, above=False))]
        if not fractions:
            return pool.either(*smaller, *([] if high.open else [pool.text(whole.encode())]))
        any_digits = pool.repeat(self._digit)
        fraction = [pool.then(part, any_digits) for part in self._differing(rest, above=False, padded=False)]
        if not high.open:
            # As the engine has it: zeros may follow a whole bound other than 0, and no fraction.
            zeros = pool.repeat(pool.text(b"0"), 1) if high.value else pool.nothing
            fraction.append(pool.text(rest.encode()) if rest else zeros)
        ends = pool.then(pool.text(whole.encode()), self._point, pool.either(*fraction))
        alone = [pool.text(whole.encode())] if rest or not high.open else []
        return pool.either(*smaller, ends, *alone)

    def _differing(self, digits: str, above: bool, padded: bool = True) -> list[Regular]:
        """Digits that first differ from ``digits`` at some place, above or below; padded: of the same number."""
        pool, out = self._pool, []
        for place, text in enumerate(digits):
            digit = int(text)
            leading = 1 if padded and place == 0 and len(digits) > 1 else 0
            low, high = (digit + 1, 9) if above else (leading, digit - 1)
            if low <= high:
                rest = len(digits) - place - 1 if padded else 0
                more = pool.repeat(self._digit, rest, rest)
                out.append(pool.then(pool.text(digits[:place].encode()), self._digits(low, high), more))
        return out


def _parts(value: Decimal) -> tuple[str, str]:
    """The digits before and after the point, without zeros at the end."""
    whole, _, rest = f"{abs(value):f}".partition(".")
    return whole, rest.rstrip("0")
