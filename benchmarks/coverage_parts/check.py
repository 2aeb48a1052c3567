"""One model type from a config to text: exported for a target, its greedy tokens against those of transformers."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from pydantic import BaseModel

from benchmarks.coverage_parts.rounded import compared_with_rounded_graph
from benchmarks.coverage_parts.spoken import NEW_TOKENS, PROMPT, Reference, compared
from benchmarks.coverage_parts.tiny import save_tiny, tiny_config, tiny_model
from edgec.errors import EdgecError
from edgec.exporter.api import export_bundle
from edgec.exporter.options import ExportOptions

CONTEXT = 128


@dataclass(frozen=True)
class Column:
    """What a type is exported for.

    Attributes:
        title: in the table.
        target: as ``edgec export --target`` takes it.
        recipe: its name.
        format: of the artifact; empty: the target's.
        tie: the two best logits lie this near, relative to the largest, where either may be said: sums in another order
            in float32, values of 11 bits in float16.
        speaks: whether this machine runs the bundle, so that its tokens are compared; else the export's ladder decides.
        rounded: the tokens are compared with those of the rounded graph in place of transformers': rounding moves what
            random weights say.
        wider: the model has the other widths of tiny.toml.
        seed: of its weights.
    """

    title: str
    target: str
    recipe: str = "float"
    format: str = ""
    tie: float = 1e-5
    speaks: bool = True
    rounded: bool = False
    wider: bool = False
    seed: int = 0


COLUMNS: Mapping[str, Column] = {
    column.title: column
    for column in (
        Column("host", "host"),
        Column("host 4bit", "host", recipe="4bit", rounded=True),
        Column("host wider", "host", wider=True, seed=1),
        Column("android-cpu", "android-cpu"),
        Column("onnx", "android-cpu", format="onnx"),
        Column("iphone pte", "iphone", format="pte", tie=5e-3),
        Column("iphone mlpackage", "iphone", format="mlpackage", tie=5e-3),
        # The emulation does not load what it compiled; the ladder has executed it.
        Column("snapdragon", "snapdragon-8-elite", recipe="8bit", speaks=False),
    )
}
# Rounding may move what random weights say as far as it likes.
_ROUNDED = {"kl_mean": 100.0, "top1_agreement": 0.0}
_HEAVY = (
    "edgec.backends.cpu.lower",
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
        column: a title of `COLUMNS`.
        result: ``equal``, ``passed`` (the export's ladder, where nothing here runs the bundle), ``refused``,
            ``different``, ``failed``, ``no config`` or ``timeout``.
        code: of a refusal.
        reason: of everything but ``equal``.
        seconds: of the whole check, for information.
    """

    kind: str
    column: str = "host"
    result: str
    code: str = ""
    reason: str = ""
    seconds: float = 0.0


def check(kind: str, column: Column = COLUMNS["host"]) -> Outcome:
    """Export a tiny random model of a type and compare its text."""

    def outcome(result: str, reason: object = "", code: str = "") -> Outcome:
        words = " ".join(str(reason).split())[:300]
        return Outcome(kind=kind, column=column.title, result=result, code=code, reason=words)

    with TemporaryDirectory() as folder:
        try:
            return outcome(*_compared(kind, Path(folder), column))
        except EdgecError as error:
            return outcome("refused", f"{error.what} {error.why}", error.code)
        except Exception as error:
            print(traceback.format_exc(limit=-12)[-3000:])
            return outcome("failed", f"{type(error).__name__}: {error}")


def _compared(kind: str, folder: Path, column: Column) -> tuple[str, str]:
    """The result and its reason; a type that transformers can describe and neither make nor run must be refused."""
    try:
        reference = _reference(kind, folder, column)
    except Exception as error:  # Each family fails in its own way on sizes that it was not made for.
        _export_config(kind, folder / "config", column)
        return "no config", f"{type(error).__name__}: {error}"
    bundle = _exported(folder, column)
    if not column.speaks:
        return "passed", ""
    said = _said(bundle, reference.prompt)
    if not column.rounded:
        return compared(said, reference, column.tie)
    return compared_with_rounded_graph(_options(folder, column), reference.prompt, said, column.tie)


def _export_config(kind: str, folder: Path, column: Column) -> None:
    """Export a type's config with random weights, where it has one."""
    try:
        tiny_config(kind, column.wider).save_pretrained(folder)
    except Exception:  # As above: there is nothing to export.
        return
    export_bundle(replace(_options(folder, column), random_weights=True, out=folder / "x.edgec"))


def _reference(kind: str, folder: Path, column: Column) -> Reference:
    """Save the model, and let it speak."""
    config = tiny_config(kind, column.wider)
    model = tiny_model(config, column.seed)
    model.generation_config = type(model.generation_config)()
    save_tiny(model, config, folder)
    prompt = torch.randint(5, 200, (1, PROMPT), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        said = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    tokens = said.tolist()[0][PROMPT:]
    return Reference(prompt[0].tolist(), tokens, _by_forward(model, prompt), partial(_read, model, prompt))


def _read(model: Any, prompt: torch.Tensor, said: list[int]) -> torch.Tensor:
    text = torch.cat([prompt, torch.tensor([said[:-1]])], 1)
    with torch.no_grad():
        return cast(torch.Tensor, model(text, use_cache=False).logits[0, PROMPT - 1 :].float())


def _by_forward(model: Any, prompt: torch.Tensor) -> list[int]:
    """Greedy tokens of the model's forward over the whole text, without a cache."""
    text = prompt
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            text = torch.cat([text, model(text, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
    return [int(token) for token in text[0, PROMPT:]]


def _exported(folder: Path, column: Column) -> Path:
    return export_bundle(replace(_options(folder, column), out=folder / "x.edgec"))


def _options(folder: Path, column: Column) -> ExportOptions:
    return ExportOptions(
        folder,
        target=column.target,
        recipe=column.recipe,
        format=column.format or None,
        context=CONTEXT,
        task="text-generation",
        budgets=_ROUNDED if column.rounded else {},
    )


def _said(bundle: Path, prompt: list[int]) -> list[int]:
    from edgec.runtime_py.sessions.session import Session

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
