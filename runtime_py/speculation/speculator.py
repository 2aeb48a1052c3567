"""The decoding loop with drafts: guess, verify all guesses in one call, keep what the model agrees with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.decoding.stepper import Stepper, check_context
from edgec.runtime_py.speculation.call_cost import DraftingCost
from edgec.runtime_py.speculation.controller import Controller, Offer
from edgec.runtime_py.speculation.draft import Draft, Drafter, DraftLimits, Obedient
from edgec.runtime_py.speculation.verification import accept_or_redraw, choose_along
from edgec.runtime_py.structured.rule import TokenRule

# The most tokens of a draft that are compared.
_FOLLOWED: Final = 8


@dataclass(frozen=True)
class Judgement:
    """The judgement that of ``drafted`` tokens the first ``accepted`` were right."""

    offer: Offer
    drafted: int
    accepted: int


class Shadow:
    """Unverified drafts, compared with the text as it comes, so that acceptance is learned without a call.

    At most one per drafter is followed.
    """

    def __init__(self) -> None:
        self._followed: dict[str, tuple[Offer, tuple[int, ...], int]] = {}

    def follow(self, offer: Offer, tokens: tuple[int, ...], start: int) -> None:
        """Follow a draft from position ``start`` on, unless one of this drafter is being followed."""
        self._followed.setdefault(offer.drafter, (offer, tokens[:_FOLLOWED], start))

    def drop(self, drafter: str) -> None:
        """Stop following a drafter's draft, because it is being verified."""
        self._followed.pop(drafter, None)

    def judge(self, history: Sequence[int]) -> Iterator[Judgement]:
        """Judge the drafts that ``history`` has decided, and stop following them."""
        for drafter, (offer, tokens, start) in list(self._followed.items()):
            came = history[start : start + len(tokens)]
            right = next((i for i, (a, b) in enumerate(zip(came, tokens, strict=False)) if a != b), len(came))
            if right < len(came) or right == len(tokens):
                del self._followed[drafter]
                yield Judgement(offer, len(tokens), right)


@dataclass(frozen=True)
class SpeculationCounts:
    """What speculation did for one text, counted and not timed.

    Attributes:
        drafted: tokens that were verified.
        accepted: how many of them were right.
        calls: calls of the model after the prompt's; each gives one token in addition to the right ones.
    """

    drafted: int = 0
    accepted: int = 0
    calls: int = 0

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that were right, 0..1; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_call(self) -> float | None:
        """Tokens per call of the model; None without a call."""
        return (self.accepted + self.calls) / self.calls if self.calls else None


@dataclass
class _Text:
    """A text being generated; the newest token of ``history`` is not fed yet."""

    stepper: Stepper
    sampler: Sampler
    history: list[int]
    end: int
    shadow: Shadow
    calls: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class _Chance:
    """An offer with its drafter, and its draft where making one is free."""

    offer: Offer
    drafter: Drafter
    draft: Draft | None


class Speculator:
    """Generates with one model's drafters, and learns costs and acceptance for later texts."""

    def __init__(
        self,
        drafters: Sequence[Drafter],
        limits: DraftLimits,
        clock: Callable[[], float] = perf_counter,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Speculate with some drafters.

        Args:
            drafters: any number; the controller chooses among them at every step.
            limits: the limits of the model that verifies.
            clock: gives seconds; costs are measured with it.
            rng: decides about drafts that were drawn; None for one from the system's entropy.
        """
        self._drafters, self._limits, self._clock = tuple(drafters), limits, clock
        self._controller, self._drafting = Controller(limits.most), DraftingCost()
        self._rng = rng or np.random.default_rng()
        self._text: _Text | None = None

    @property
    def counts(self) -> SpeculationCounts:
        """The counts of the latest text."""
        text = self._text
        return SpeculationCounts(text.drafted, text.accepted, text.calls) if text else SpeculationCounts()

    def tokens(
        self,
        stepper: Stepper,
        prompt: Sequence[int],
        sampling: Sampling,
        wanted: int | None = None,
        cached: int = 0,
        rule: TokenRule | None = None,
    ) -> Iterator[int]:
        """Generate tokens until the context is full, as ``stream_tokens`` would.

        Args:
            stepper: the model that verifies.
            prompt: the whole sequence so far.
            sampling: how tokens are chosen.
            wanted: the most tokens that will be taken; drafts do not reach beyond.
            cached: leading tokens of ``prompt`` that the KV cache holds already; fewer than all of them.
            rule: what a structured text may hold; drafts are held to it, too.

        Raises:
            InputError: E150, E151 before anything is executed.
        """
        context = stepper.limits.context
        end = context + 1 if wanted is None else min(context + 1, len(prompt) + wanted)
        text = self._text = _Text(stepper, Sampler(sampling, rule), list(prompt), end, Shadow())
        history = text.history
        check_context(len(history), context)
        history.append(text.sampler(stepper.prefill(history[cached:], cached), history))
        yield history[-1]
        self._controller.begin()
        for drafter in self._drafters:
            drafter.begin(history, sampling)
            if isinstance(drafter, Obedient):
                drafter.obey(rule)
        while len(history) <= context:
            begun = len(history)
            self._step(text)
            yield from history[begun:]

    def _step(self, text: _Text) -> None:
        """Make one call and append its tokens to the history."""
        if not self._controller.may_draft:
            self._controller.waited()
            return self._advance(text)
        started = self._clock()
        for judgement in text.shadow.judge(text.history):
            self._controller.judged(judgement.offer, judgement.drafted, judgement.accepted)
        chances = self._chances(text)
        plan = self._controller.plan([chance.offer for chance in chances]) if chances else None
        chosen = chances[plan.offer] if plan and plan.length else None
        self._follow(chances, chosen, text)
        draft = self._draft(chosen, text.history, plan.length) if chosen and plan else None
        if not chosen or not draft:
            self._controller.planned_in_vain((self._clock() - started) * 1e3)
            started = self._clock()
            self._advance(text)
            return self._controller.plain((self._clock() - started) * 1e3)
        return self._verify(text, chosen.offer, draft, started)

    def _chances(self, text: _Text) -> list[_Chance]:
        history, chances = text.history, []
        longest = self._limits.longest(len(history) - 1, text.end - len(history))
        for drafter in self._drafters if longest else ():
            draft = _fitting(drafter.propose(history, longest), text.sampler.rule) if drafter.free else None
            if draft:
                chances.append(_Chance(Offer(drafter.name, draft.confidence, len(draft.tokens)), drafter, draft))
            elif not drafter.free:
                chances.append(_Chance(Offer(drafter.name, 0, longest, self._drafting.ms(drafter.name)), drafter, None))
        return chances

    def _follow(self, chances: Sequence[_Chance], chosen: _Chance | None, text: _Text) -> None:
        for chance in chances:
            if chance is chosen:
                text.shadow.drop(chance.offer.drafter)
            elif chance.draft:
                text.shadow.follow(chance.offer, chance.draft.tokens, len(text.history))

    def _draft(self, chosen: _Chance, history: Sequence[int], length: int) -> Draft | None:
        if chosen.draft:
            return chosen.draft.first(length)
        started = self._clock()
        draft = chosen.drafter.propose(history, length)
        if draft:
            self._drafting.observe(chosen.offer.drafter, len(draft.tokens), (self._clock() - started) * 1e3)
        return draft

    def _advance(self, text: _Text) -> None:
        history = text.history
        rows = text.stepper.forward(history[-1:], len(history) - 1, (0,))
        history.append(text.sampler(rows[0], history))
        text.calls += 1

    def _verify(self, text: _Text, offer: Offer, draft: Draft, step_started: float) -> None:
        started, history = self._clock(), text.history
        fed = (history[-1], *draft.tokens)
        rows = text.stepper.forward(fed, len(history) - 1, range(len(fed)))
        if draft.drawn_from:
            accepted = accept_or_redraw(rows, draft, history, text.sampler, self._rng)
        else:
            accepted = choose_along(rows, draft.tokens, history, text.sampler)
        ended, drafted = self._clock(), len(draft.tokens)
        self._controller.verified(offer, drafted, accepted, (ended - started) * 1e3, (started - step_started) * 1e3)
        text.calls += 1
        text.drafted += drafted
        text.accepted += accepted


def _fitting(draft: Draft | None, rule: TokenRule | None) -> Draft | None:
    """The beginning of a draft that a rule allows, or None. What was drawn was masked by its drafter."""
    if draft is None or rule is None or draft.drawn_from:
        return draft
    count = rule.count_fitting(draft.tokens)
    return draft.first(count) if count else None
