"""Models with recurrences or experts against llama.cpp: python -m benchmarks.hybrids [NAME ...] [--no-peers].

Qwen3.5-0.8B cut to 8 layers (6 of Gated DeltaNet, 2 of attention) unless names say otherwise: ``lfm2`` (short
convolutions), ``qwen3-moe`` and ``gpt-oss`` (2 layers of experts). 4 bits in groups of 32 in both: a prompt of 512
tokens, and decoding at positions 128 and 8,192, in turns, each measurement in a fresh process. Two passes over one
sequence, as recurrences cannot go back to where a case began. What recurrences take must not grow with the position:
the run stops where it does. ``--last 512`` ends there and leaves out the memory: a whole model takes a minute to come
to 8,192.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.artifacts import Workshop, float16_gguf
from benchmarks.harness.jobs import status_bytes
from benchmarks.harness.machine import identity
from benchmarks.harness.models import Model, weights
from benchmarks.harness.processes import run_worker
from benchmarks.harness.results import ContextCurve, Spread
from benchmarks.harness.rounds import Rounds, curves
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import HYBRID, LLAMA, OWN, Subject

CONTEXTS, STEPS = (128, 512, 8192), 16
GOAL = 1.1
_BUDGET_S = 3600.0
_AGREEMENT_TOKENS = 8


@dataclass(frozen=True)
class Memory:
    """What a session takes, measured at two positions.

    Attributes:
        state_bytes: of what recurrences remember, by the manifest.
        cache_bytes: that keys and values of the positions between the two take.
        grown_bytes: memory that no file backs (RssAnon), between the two.
    """

    state_bytes: int
    cache_bytes: int
    grown_bytes: int

    @property
    def constant(self) -> bool:
        """Whether nothing grew but keys and values, to within pages and the allocator's own blocks."""
        return self.grown_bytes < 1.02 * self.cache_bytes + (4 << 20)


def memory(bundle: Path) -> Memory:
    """Feed a session up to two positions and see what it took; call it in a process of its own."""
    from edgec.runtime_py.sessions.session import Session

    session, first, last = Session(bundle), CONTEXTS[0], CONTEXTS[-1]
    # A whole chunk after the first position: buffers of chunks have their size.
    session.prefill([5] * (2 * first), 0)
    before = status_bytes("RssAnon") or 0
    session.prefill([5] * (last - 2 * first), 2 * first)
    grown = (status_bytes("RssAnon") or 0) - before
    states = session.bundle.manifest.states
    cache = sum(state.bytes * (last - 2 * first) // state.slots for state in states if state.layout == "full")
    recurrent = sum(state.bytes for state in states if state.layout == "recurrent")
    return Memory(recurrent, cache, grown)


def agreement(shop: Workshop, model: Model) -> dict[str, float]:
    """How far llama.cpp's float16 form is from transformers: its converter is not llama.cpp's own."""
    tokens = [(7 * i * i + 3) % int(model.config["vocab_size"]) for i in range(_AGREEMENT_TOKENS)]
    job = {"kind": "logits", "artifact": str(float16_gguf(shop, model)), "threads": 2, "context": 64}
    rows = {"tokens": tokens, "rows": len(tokens), "kv": "float32"}
    logits = run_worker(LLAMA, {**job, **rows}, python=shop.peers)["logits"]
    folder = weights(model, shop.model_folder(model)).parent
    told: dict[str, float] = run_worker(
        "benchmarks.harness.agreement", {"folder": str(folder), "tokens": tokens, "logits": logits}
    )
    return told


def table(measured: Sequence[ContextCurve]) -> str:
    """Medians in ms, and how many times as fast edgec is as the faster of llama.cpp's forms."""
    names = list(dict.fromkeys(curve.subject for curve in measured))
    reached = min((len(curve.contexts) for curve in measured), default=0)
    heads = ("median, ms", "threads", *names, f"ratio (goal {GOAL})")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for threads in sorted({curve.threads for curve in measured}):
        by_name = {curve.subject: curve for curve in measured if curve.threads == threads}
        for label, times, at in _FIGURES:
            if at < reached:
                lines.append(_line(label, threads, [times(by_name[name])[at].median for name in names], names))
    return "\n".join(lines)


_FIGURES: tuple[tuple[str, Callable[[ContextCurve], list[Spread]], int], ...] = (
    ("prefill of 512 tokens", lambda curve: curve.ttft_ms, 1),
    ("decode at position 128", lambda curve: curve.decode_ms, 0),
    ("decode at position 8,192", lambda curve: curve.decode_ms, 2),
)
"""What is shown: a curve's times, and the index of the position in CONTEXTS."""


def _line(label: str, threads: int, figures: Sequence[float], names: Sequence[str]) -> str:
    own = next(figure for figure, name in zip(figures, names, strict=True) if name == OWN)
    peers = [figure for figure, name in zip(figures, names, strict=True) if name != OWN]
    ratio = f"{min(peers) / own:.2f}x" if peers else "no peer"
    return f"| {' | '.join((label, str(threads), *(f'{figure:.2f}' for figure in figures), ratio))} |"


def main(write: Callable[[str], None] = print) -> None:
    """Make the artifacts, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    # Python 3.11 holds an empty list against ``choices``.
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(HYBRID)}; the first by default")
    parser.add_argument("--build", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--no-peers", action="store_true", help="edgec alone")
    parser.add_argument("--last", type=int, choices=CONTEXTS[1:], default=CONTEXTS[-1], help="position to end at")
    parser.add_argument("--memory-of", type=Path, help="measure the memory of a bundle in this process, as JSON")
    options = parser.parse_args()
    if options.memory_of:
        write(json.dumps(asdict(memory(options.memory_of))))
        return
    if unknown := set(options.names) - set(HYBRID):
        parser.error(f"no model {', '.join(sorted(unknown))}: choose from {', '.join(HYBRID)}")
    shop = Workshop(options.build, identity())
    rounds = Rounds(shop, Store(options.build / "hybrids"), options.rounds, tuple(options.threads), _BUDGET_S, _say)
    for name in options.names or list(HYBRID)[:1]:
        subjects = [subject for subject in HYBRID[name] if not (options.no_peers and subject.peer)]
        _compare(rounds, subjects, options.last, write)


def _compare(rounds: Rounds, subjects: Sequence[Subject], last: int, write: Callable[[str], None]) -> None:
    """Measure the subjects of one model, the first of which is edgec, and print the table."""
    shop, own = rounds.shop, subjects[0]
    write(f"{own.model.about}:")
    if any(subject.peer for subject in subjects):
        write(f"llama.cpp's float16 form against transformers: {json.dumps(agreement(shop, own.model))}")
    if last == CONTEXTS[-1]:
        _check_memory(shop.made(own).path, write)
    contexts = [position for position in CONTEXTS if position <= last]
    outcomes, failures = rounds.take(subjects, {"kind": "contexts", "contexts": contexts, "steps": STEPS})
    write(table(curves(outcomes)))
    for failure in failures:
        write(f"not measured: {failure.part}: {failure.what}")


def _check_memory(bundle: Path, write: Callable[[str], None]) -> None:
    from subprocess import PIPE, run

    command = [sys.executable, "-m", "benchmarks.hybrids", "--memory-of", str(bundle)]
    taken = Memory(**json.loads(run(command, check=True, stdout=PIPE).stdout.splitlines()[-1]))
    write(f"states {taken.state_bytes:,} bytes; {taken.grown_bytes:,} grown, keys and values {taken.cache_bytes:,}")
    if not taken.constant:
        raise SystemExit("what recurrences take grows with the position")


def _say(what: str, share: float) -> None:
    print(f"{share:.0%} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
