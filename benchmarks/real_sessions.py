"""What a trained chat model does in sessions: how many drafts of n-grams are right, what narrow keys and values cost.

    python -m benchmarks.real_sessions drafts --bundle BUNDLE --prompts QUESTIONS.jsonl [--raw] [--tokens 96]
    python -m benchmarks.real_sessions caches --model FOLDER --text FILE [--recipe 8bit] [--context 2048]

*drafts*: every prompt of a file of JSON lines ("turns", or "prompt") is answered greedily with and without drafts, in
turns. *caches*: bundles that differ in the dtype of their keys and values alone read the same text; KL, in nats, is
from the bundle with a float32 cache, by position, because errors of early keys reach all later tokens.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.speculation import Lap, lap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgec.exporter.recipes.recipe import Recipe

DTYPES = ("float32", "float16", "int8", "int4")
BUCKETS = (128, 512, 1024, 1536, 2048)


@dataclass(frozen=True)
class DraftRow:
    """How prompts of one file fared.

    Attributes:
        drafted: prompts to whose answers anything was drafted.
        acceptance: share of drafted tokens that were right, the mean over these; None where nothing was drafted.
        tokens_per_call: mean over all prompts.
        ratio: tokens/s with drafts to without, the median, and the tenth and the ninetieth percentile.
        same: every answer is the same with and without.
    """

    prompts: int
    drafted: int
    acceptance: float | None
    tokens_per_call: float
    ratio: tuple[float, float, float]
    same: bool


@dataclass(frozen=True)
class CacheRow:
    """One cache over one range of positions, ``positions`` [first, last]; ``kl`` with two standard errors."""

    dtype: str
    bytes_per_token: float
    positions: tuple[int, int]
    kl: tuple[float, float]
    same_top1: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    drafts = parts.add_parser("drafts")
    drafts.add_argument("--bundle", type=Path, required=True)
    drafts.add_argument("--prompts", type=Path, required=True, help="JSON lines, gzipped or not")
    drafts.add_argument("--raw", action="store_true", help="continue the prompts themselves, without the chat template")
    drafts.add_argument("--tokens", type=int, default=96, help="of each answer")
    drafts.add_argument("--count", type=int, help="prompts, spread over the file; all if left out")
    drafts.add_argument("--speculate", default="ngram", help="as for edgec run")
    caches = parts.add_parser("caches")
    caches.add_argument("--model", type=Path, required=True, help="folder as transformers saves it")
    caches.add_argument("--text", type=Path, required=True, help="UTF-8 text")
    caches.add_argument("--recipe", default="8bit", help="of the weights")
    caches.add_argument("--context", type=int, default=BUCKETS[-1])
    caches.add_argument("--build", type=Path, default=Path("build/bench/caches"))
    given = parser.parse_args(arguments)
    if given.part == "drafts":
        print(json.dumps(asdict(draft_row(given))))
        return
    rows = list(cache_rows(given.model, given.text, given.recipe, given.context, given.build))
    print(
        "\n".join(
            ["| KV cache | bytes/token | positions | KL | same top-1 |", "|---|---|---|---|---|", *map(_line, rows)]
        )
    )


def prompts_of(file: Path, count: int | None) -> list[str]:
    """The first questions of a file of JSON lines, spread over it."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    records: list[Mapping[str, Any]] = [json.loads(line) for line in data.splitlines() if line.strip()]
    asked = [str(record["turns"][0] if "turns" in record else record["prompt"]) for record in records]
    return asked if count is None else asked[:: max(1, len(asked) // count)][:count]


def draft_row(given: argparse.Namespace) -> DraftRow:
    """Answer every prompt twice; the order changes from prompt to prompt."""
    import edgec

    model = edgec.load(given.bundle, threads=1)
    ahead = model.speculator(given.speculate)
    assert ahead is not None, "drafting is off"
    lap(model.session, model.encode("Once upon a time"), 32, None)
    pairs: list[tuple[Lap, Lap]] = []
    for index, prompt in enumerate(prompts_of(given.prompts, given.count)):
        ids = model.encode(prompt, template=not given.raw)
        count = min(given.tokens, model.session.limits.context - len(ids))
        both: dict[bool, Lap] = {}
        for on in (False, True)[:: -1 if index % 2 else 1]:
            both[on] = lap(model.session, ids, count, ahead if on else None)
        pairs.append((both[False], both[True]))
    return summary(pairs)


def summary(pairs: Sequence[tuple[Lap, Lap]]) -> DraftRow:
    """The row of answers without and with drafts."""
    rates = [on.acceptance for _, on in pairs if on.acceptance is not None]
    ratios = sorted(off.wall_ms / len(off.tokens) * len(on.tokens) / on.wall_ms for off, on in pairs)
    return DraftRow(
        prompts=len(pairs),
        drafted=len(rates),
        acceptance=mean(rates) if rates else None,
        tokens_per_call=mean(on.tokens_per_call for _, on in pairs),
        ratio=(median(ratios), ratios[len(ratios) // 10], ratios[len(ratios) * 9 // 10]),
        same=all(off.tokens == on.tokens for off, on in pairs),
    )


def cache_rows(model: Path, text: Path, recipe: str, context: int, build: Path) -> Iterator[CacheRow]:
    """Export a bundle for each dtype and let it read the text's tokens from a place inside it."""
    from edgec.runtime_py.decoding.forced_text import log_softmax

    exact: NDArray[np.float64] | None = None
    for dtype in DTYPES:
        size, logits = _read(model, text, recipe, context, build / f"{recipe}-{dtype}.edgec", dtype)
        likely = log_softmax(logits)
        if exact is None:
            exact = likely
            continue
        yield from rows_by_position(dtype, size, exact, likely)


def _read(
    model: Path, text: Path, recipe: str, context: int, out: Path, dtype: str
) -> tuple[float, NDArray[np.float32]]:
    """The bytes of the cache for each position, and the logits of the text, float32 [context, vocabulary]."""
    import numpy as np

    import edgec
    from edgec.runtime_py.decoding.forced_text import forced_rows

    out.parent.mkdir(parents=True, exist_ok=True)
    open_budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
    edgec.export(model, recipe=with_cache(recipe, dtype), context=context, out=out, force=True, budgets=open_budgets)
    loaded = edgec.load(out)
    states = loaded.bundle.manifest.states
    size = sum(state.bytes / state.slots for state in states)
    ids = loaded.encode(text.read_text(encoding="utf-8")[100_000 : 100_000 + 8 * context])[:context]
    return size, np.concatenate([rows for _, rows in forced_rows(loaded.session, ids)])


def with_cache(name: str, dtype: str) -> Recipe:
    """A named recipe whose caches hold another dtype."""
    from edgec.exporter.recipes.file import load_recipe

    recipe = load_recipe(name)
    own = {backend: replace(each, kv_dtype=dtype) for backend, each in recipe.on.items() if backend == recipe.kernels}
    return replace(recipe, kv_dtype=dtype, on=own)


def rows_by_position(
    dtype: str, size: float, exact: NDArray[np.float64], likely: NDArray[np.float64]
) -> Iterator[CacheRow]:
    """The figures of each range of positions; both are log-probabilities [positions, vocabulary]."""
    import numpy as np

    kl = (np.exp(exact) * (exact - likely)).sum(1)
    same = exact.argmax(1) == likely.argmax(1)
    starts = [0, *(edge for edge in BUCKETS if edge < len(kl))]
    for first, stop in zip(starts, [*starts[1:], len(kl)], strict=True):
        part = kl[first:stop]
        error = float(2 * part.std() / len(part) ** 0.5)
        yield CacheRow(dtype, size, (first, stop - 1), (float(part.mean()), error), float(same[first:stop].mean()))


def _line(row: CacheRow) -> str:
    positions, (kl, error) = f"{row.positions[0]}-{row.positions[1]}", row.kl
    return f"| {row.dtype} | {row.bytes_per_token:,.0f} | {positions} | {kl:.5f} ± {error:.5f} | {row.same_top1:.1%} |"


if __name__ == "__main__":
    main()
