"""The decoding loop with drafts: guess, verify all guesses in one call, keep what the model agrees with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.speculation.controller import Controller, Offer
from edgec.runtime_py.speculation.counts import SpeculationCounts
from edgec.runtime_py.speculation.draft import Draft, Drafter
from edgec.runtime_py.speculation.draft_limits import DraftLimits
from edgec.runtime_py.speculation.drafting_cost import DraftingCost
from edgec.runtime_py.speculation.shadow import Shadow
from edgec.runtime_py.speculation.verification import accept_or_redraw, choose_along
from edgec.runtime_py.stepper import Stepper, check_context


@dataclass(frozen=True)
class _Text:
    """A text in the making; ``history`` grows, and its newest token is not fed yet."""

    stepper: Stepper
    sampler: Sampler
    history: list[int]
    prompt_tokens: int

    @property
    def generated(self) -> int:
        return len(self.history) - self.prompt_tokens

    def call(self, draft: Draft | None, rng: np.random.Generator) -> list[int]:
        """Feed the newest token and a draft; the tokens that the model chooses along it."""
        guessed = draft.tokens if draft else ()
        fed = (self.history[-1], *guessed)
        rows = self.stepper.forward(fed, len(self.history) - 1, range(len(fed)))
        if draft and draft.drawn_from:
            return accept_or_redraw(rows, draft, self.history, self.sampler.sampling, rng)
        return choose_along(rows, guessed, self.history, self.sampler)


@dataclass(frozen=True)
class _Chance:
    """An offer, who makes it, and the draft where it costs nothing to make."""

    offer: Offer
    drafter: Drafter
    draft: Draft | None


class Speculator:
    """Generates with one model's drafters; what it learns about costs and acceptance serves later texts.

    Attributes:
        counts: of the latest text.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        limits: DraftLimits,
        clock: Callable[[], float] = perf_counter,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Take drafters.

        Args:
            drafters: any number; the controller chooses among them at every step.
            limits: of the model that verifies.
            clock: seconds; costs are measured with it.
            rng: decides about drafts that were drawn; None for one from the system's entropy.
        """
        self.counts = SpeculationCounts()
        self._drafters, self._limits, self._clock = tuple(drafters), limits, clock
        self._controller, self._drafting = Controller(limits.most), DraftingCost()
        self._rng = rng or np.random.default_rng()
        self._shadow = Shadow()

    def tokens(
        self, stepper: Stepper, prompt: Sequence[int], sampling: Sampling, wanted: int | None = None, cached: int = 0
    ) -> Iterator[int]:
        """Tokens until the context is full, as ``stream_tokens`` would give them.

        Args:
            stepper: the model that verifies.
            prompt: the whole sequence so far.
            sampling: how tokens are chosen.
            wanted: tokens that will be taken at most; drafts do not reach beyond.
            cached: leading tokens of ``prompt`` that the KV cache holds already; fewer than all of them.

        Raises:
            InputError: E150, E151 before anything is executed.
        """
        text = _Text(stepper, Sampler(sampling), list(prompt), len(prompt))
        history = text.history
        self.counts, self._shadow = SpeculationCounts(), Shadow()
        check_context(len(history), stepper.limits.context)
        history.append(text.sampler(stepper.prefill(history[cached:], cached), history))
        yield history[-1]
        for drafter in self._drafters:
            drafter.begin(history, sampling)
        while len(history) <= stepper.limits.context:
            begun = len(history)
            history.extend(self._step(text, wanted))
            yield from history[begun:]

    def _step(self, text: _Text, wanted: int | None) -> list[int]:
        """The tokens of one call."""
        started = self._clock()
        history = text.history
        for judgement in self._shadow.judge(history):
            self._controller.judged(judgement.offer, judgement.drafted, judgement.accepted)
        left = None if wanted is None else wanted - text.generated
        chances = self._chances(history, self._limits.longest(len(history) - 1, left))
        plan = self._controller.plan([chance.offer for chance in chances])
        chosen = chances[plan.offer] if plan.length else None
        self._follow(chances, chosen, len(history))
        draft = self._draft(chosen, history, plan.length) if chosen else None
        tokens = self._verify(text, chosen.offer, draft, started) if chosen and draft else self._plain(text)
        self.counts = self.counts.plus(len(draft.tokens) if draft else 0, len(tokens))
        return tokens

    def _chances(self, history: Sequence[int], longest: int) -> list[_Chance]:
        found = []
        for drafter in self._drafters if longest else ():
            draft = drafter.propose(history, longest) if drafter.free else None
            if draft:
                found.append(_Chance(Offer(drafter.name, draft.confidence, len(draft.tokens)), drafter, draft))
            elif not drafter.free:
                found.append(_Chance(Offer(drafter.name, 0, longest, self._drafting.ms(drafter.name)), drafter, None))
        return found

    def _follow(self, chances: Sequence[_Chance], chosen: _Chance | None, start: int) -> None:
        for chance in chances:
            if chance is chosen:
                self._shadow.drop(chance.offer.drafter)
            elif chance.draft:
                self._shadow.follow(chance.offer, chance.draft.tokens, start)

    def _draft(self, chosen: _Chance, history: Sequence[int], length: int) -> Draft | None:
        if chosen.draft:
            return chosen.draft.first(length)
        started = self._clock()
        draft = chosen.drafter.propose(history, length)
        if draft:
            self._drafting.observe(chosen.offer.drafter, len(draft.tokens), (self._clock() - started) * 1e3)
        return draft

    def _plain(self, text: _Text) -> list[int]:
        started = self._clock()
        tokens = text.call(None, self._rng)
        self._controller.plain((self._clock() - started) * 1e3)
        return tokens

    def _verify(self, text: _Text, offer: Offer, draft: Draft, step_started: float) -> list[int]:
        started = self._clock()
        tokens = text.call(draft, self._rng)
        ended = self._clock()
        drafted, accepted = len(draft.tokens), len(tokens) - 1
        self._controller.verified(offer, drafted, accepted, (ended - started) * 1e3, (ended - step_started) * 1e3)
        return tokens
