"""One model type from a config to text: exported for ``host``, its greedy tokens against those of transformers."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pydantic import BaseModel

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model

PROMPT, NEW_TOKENS, CONTEXT = 24, 24, 128
# A near-tie: as much as sums in another order may differ, relative to the largest logit.
_TIE = 1e-5
_NUMBERED_OTHERWISE = "to the model's own forward; transformers' generate numbers the positions otherwise"
_HEAVY = (
    "edgec.backends.xnnpack.lower",
    "edgec.exporter.api",
    "edgec.exporter.assemble.assemble",
    "edgec.exporter.bit_search.stage",
    "edgec.exporter.stages.decoder",
    "edgec.exporter.resolve.resolved",
    "edgec.exporter.report.page",
    "edgec.runtime_py.sessions.session",
    "torch._inductor.fx_passes.post_grad",
    "torch.distributed.tensor",
    "transformers.generation",
    "transformers.models.llama.modeling_llama",
    "transformers.models.mixtral.modeling_mixtral",
)


class Outcome(BaseModel):
    """What became of one model type.

    Attributes:
        result: ``equal``, ``refused``, ``different``, ``failed``, ``no config`` or ``timeout``.
        code: of a refusal.
        reason: of everything but ``equal``.
        seconds: of the whole check, for information.
    """

    kind: str
    recipe: str
    result: str
    code: str = ""
    reason: str = ""
    seconds: float = 0.0


def check(kind: str, recipe: str, seed: int = 0) -> Outcome:
    """Export a tiny random model of a type and compare its text."""
    from edgec.errors import EdgecError

    def outcome(result: str, reason: object = "", code: str = "") -> Outcome:
        return Outcome(kind=kind, recipe=recipe, result=result, code=code, reason=" ".join(str(reason).split())[:300])

    with TemporaryDirectory() as folder:
        try:
            prompt, wanted, plain, margin = _reference(kind, Path(folder), seed)
        except Exception as error:  # Each family fails in its own way on sizes that it was not made for.
            return outcome("no config", f"{type(error).__name__}: {error}")
        try:
            said = _exported(Path(folder), recipe, prompt)
        except EdgecError as error:
            return outcome("refused", f"{error.what} {error.why}", error.code)
        except Exception as error:
            print(traceback.format_exc(limit=-12)[-3000:])
            return outcome("failed", f"{type(error).__name__}: {error}")
    if said in (wanted, plain):
        return outcome("equal", "" if said == wanted else _NUMBERED_OTHERWISE)
    first = next(i for i in range(NEW_TOKENS) if said[i] != wanted[i])
    if margin[first] < _TIE:
        return outcome(
            "equal", f"up to token {first}, a tie of the two best (margin {margin[first]:.0e} of the largest)"
        )
    return outcome("different", f"from token {first} on, where the two best are {margin[first]:.0e} apart")


def _reference(kind: str, folder: Path, seed: int) -> tuple[list[int], list[int], list[int], list[float]]:
    """Save the model; its prompt, greedy tokens, those of its forward, and how far the two best are apart at each."""
    model = tiny_model(tiny_config(kind), seed)
    model.generation_config = type(model.generation_config)()
    model.save_pretrained(folder)
    prompt = torch.randint(5, 200, (1, PROMPT), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        said = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
    logits = torch.cat(said.logits).float()
    best = logits.topk(2).values
    margin = ((best[:, 0] - best[:, 1]) / logits.abs().amax(-1)).tolist()
    return prompt[0].tolist(), said.sequences[0, PROMPT:].tolist(), _by_forward(model, prompt), margin


def _by_forward(model: Any, prompt: torch.Tensor) -> list[int]:
    """Greedy tokens of the model's forward over the whole text, without a cache."""
    text = prompt
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            text = torch.cat([text, model(text, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
    return [int(token) for token in text[0, PROMPT:]]


def _exported(folder: Path, recipe: str, prompt: list[int]) -> list[int]:
    import edgec
    from edgec.runtime_py.sessions.session import Session

    bundle = edgec.export(folder, target="host", recipe=recipe, out=folder / "x.edgec", context=CONTEXT)
    session = Session(bundle)
    tokens, logits = list(prompt), session.prefill(prompt, 0)
    for _ in range(NEW_TOKENS):
        tokens.append(int(logits.argmax()))
        logits = session.prefill(tokens[-1:], len(tokens) - 1)
    return tokens[len(prompt) :]


def import_heavy_modules() -> None:
    """Import what every check needs, once, before processes are forked: it takes longer than a check."""
    for name in _HEAVY:
        import_module(name)
    # Warm, and left out of every later collection of garbage.
    import_module("executorch.backends.xnnpack.partition.graphs.bilinear_2d").get_graphs()
    gc.freeze()


def in_process(work: Callable[[], Outcome], limit_s: float) -> Outcome | None:
    """Run a check in a separate process; None when it did not end in time or ended without output."""
    import multiprocessing

    context: Any = multiprocessing.get_context("fork")  # what was imported once is not imported for each type again
    ours, theirs = context.Pipe(duplex=False)

    def child() -> None:
        theirs.send(work())

    process = context.Process(target=child)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit_s) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()
