"""The path /v1/rerank: documents in the order in which they answer a query, as Jina's and Cohere's clients read it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from pydantic import ConfigDict, Field
from starlette.requests import Request

from edgec.runtime_py.scoring.relevance import TASK, Relevance, relevance_of
from edgec.runtime_py.serve.adapters import ServedModel
from edgec.runtime_py.serve.answer_group import AnswerGroup
from edgec.runtime_py.serve.hosted_in_turns import HostedInTurns
from edgec.runtime_py.serve.preparing import until_gone
from edgec.runtime_py.serve.stopping import Closing, WorkStop
from edgec.runtime_py.serve.strict import MOST_TEXT, Strict
from edgec.runtime_py.serve.wanted_answer import WantedAnswer
from edgec.runtime_py.structured.patience import Check, require_wanted

_MOST_DOCUMENTS: Final = 1024


class RankedDocument(Strict):
    """A document as an object; what it has beside its text is given back and not read."""

    model_config = ConfigDict(extra="allow")

    text: str = Field(max_length=MOST_TEXT)


class RerankBody(Strict):
    """The body of /v1/rerank."""

    model: str = Field(max_length=256)
    query: str = Field(min_length=1, max_length=MOST_TEXT)
    documents: list[str | RankedDocument] = Field(min_length=1, max_length=_MOST_DOCUMENTS)
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False
    instruction: str | None = Field(default=None, max_length=MOST_TEXT)

    def texts(self) -> list[str]:
        """The text of each document."""
        return [each if isinstance(each, str) else each.text for each in self.documents]


class HostedRanker(HostedInTurns):
    """A loaded cross-encoder with its thread."""

    path = "/v1/rerank"

    async def rank(self, query: str, texts: Sequence[str], stopped: WorkStop) -> list[Relevance]:
        """How well each text answers a query; to be called in the server's loop.

        Raises:
            InputError: E152, E158 and E643 as `Model.relevance`; else as `HostedInTurns.done`.
        """

        def made(check: Check) -> list[Relevance]:
            out = []
            for text in texts:
                check()
                out.append(self.model.relevance(query, text))
            return out

        return await self.done(made, stopped)


async def ranked_by_decoder(
    request: Request, closing: Closing, offer: ServedModel, prompts: Sequence[Sequence[int]]
) -> list[Relevance]:
    """How well each document answers the query, by a decoder's first token after each prompt.

    Args:
        request: whose client waits; once it goes, nothing more is computed.
        closing: what ends when the server stops.
        offer: a decoder.
        prompts: of `judged_prompts`.

    Raises:
        Gone: the client went.
        RequestError: E637, E638, as `Hosted.answer`.
    """
    hosted, made = offer.hosted, list[Relevance]()
    asked, verdicts = hosted.model.request(max_new_tokens=1), hosted.model.verdicts
    at_once = hosted.slots.sessions
    for first in range(0, len(prompts), at_once):
        wanted = [WantedAnswer(tuple(each), asked, rated=verdicts) for each in prompts[first : first + at_once]]
        group = AnswerGroup.begun([partial(hosted.answer, each, offer.adapter) for each in wanted])
        watcher = asyncio.create_task(until_gone(request, group.stop))
        try:
            closing.add(group)
            for one, (chosen, *_) in zip(wanted, await group.whole(), strict=True):
                yes, no = (each.logprob for each in chosen.likeliest)
                made.append(Relevance(relevance_of(yes, no), len(one.prompt)))
        finally:
            group.stop()
            watcher.cancel()
    return made


def judged_prompts(offer: ServedModel, body: RerankBody) -> list[list[int]]:
    """The prompt of each document.

    Raises:
        InputError: E897, the model cannot say yes or no; else as `judgement_prompt`.
    """
    model, task = offer.hosted.model, TASK if body.instruction is None else body.instruction
    assert model.verdicts
    made = []
    for text in body.texts():
        require_wanted()
        made.append(model.judgement_prompt(body.query, text, task))
    return made


def rerank_object(name: str, body: RerankBody, made: Sequence[Relevance]) -> dict[str, Any]:
    """The answer of /v1/rerank: the best first, of equals the one that came first."""
    order = sorted(range(len(made)), key=lambda place: -made[place].score)[: body.top_n]
    results: list[dict[str, Any]] = [{"index": place, "relevance_score": made[place].score} for place in order]
    if body.return_documents:
        texts = body.texts()
        results = [{**each, "document": {"text": texts[each["index"]]}} for each in results]
    tokens = sum(one.tokens for one in made)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    meta = {"api_version": {"version": "1"}, "billed_units": {"search_units": 1}}
    held = {"id": f"rerank-{secrets.token_hex(12)}", "object": "list", "model": name}
    return {**held, "results": results, "usage": usage, "meta": meta}
