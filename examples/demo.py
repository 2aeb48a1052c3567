"""Export the example model in several sizes, and put side by side what each takes, says and costs.

    python examples/demo.py --out build/demo

The float model, 4 bits, and, where the folder MODEL-two-bit lies beside the model (weights packed, as
``examples/train_stories.py pack`` leaves them), 2 bits with shared keys and values. Then what ``edgec plan`` estimates
of a model of the size that phones run, where the report lies, and what to try next. A GGUF file is shown as
``examples/chat_demo.py`` does.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Run as a script, only this folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgec.quiet import quiet

with quiet():
    import edgec
    from edgec.bundle.folder import read_manifest
    from edgec.devices.targets import load_target
    from edgec.errors import EdgecError
    from edgec.exporter.report.headline import next_commands
    from edgec.exporter.resolve.planned import Question, answer
    from edgec.runtime_py.evaluate.side_by_side import FIGURES, SideBySide, side_by_side
    from edgec.terminal import SCREEN, WordTable, make_console
    from examples import chat_demo
    from examples.stories.packed import PACKED, unpack

PHONES = ("iphone-15-pro", "pixel-8", "galaxy-s24-ultra")
# Speeds of models as small as the example were never published, so none is estimated.
PLANNED = Path(__file__).parents[1] / "benchmarks" / "architectures" / "qwen3-0.6b.json"
HELD_OUT = "held-out.txt"
PROMPT = "Once upon a time"
TWO_BIT = "-two-bit"
SENTENCE = re.compile(r".+?[.!?][\"”]?(?=\s|$)", re.DOTALL)


@dataclass(frozen=True)
class Variant:
    """One size of the model: its name in the table, the model's folder, and the recipe (None: the folder's own)."""

    name: str
    model: Path
    recipe: str | None


@dataclass(frozen=True)
class Outcome:
    """What one bundle takes and does, measured on this machine, and the first two sentences that it writes."""

    name: str
    measured: SideBySide
    text: str


def variants(model: Path, out: Path) -> list[Variant]:
    """The sizes that can be made from what is there; a packed model is unpacked into ``out``."""
    sizes = [Variant("float", model, "float"), Variant("4 bits", model, "4bit")]
    two_bit = model.with_name(model.name + TWO_BIT)
    if not (two_bit / PACKED).is_file():
        return sizes
    return [*sizes, Variant("2 bits, shared KV", unpack(two_bit, out / two_bit.name), None)]


def two_sentences(text: str) -> str:
    """The first two sentences of a text on one line, or all of it where it has no two."""
    sentences = [match.group().strip() for match in SENTENCE.finditer(text.strip())][:2]
    return " ".join(" ".join(sentences or [text]).split())


def show_variant(variant: Variant, reference: Path, out: Path, prompt: str) -> Outcome:
    """Export one size and measure it."""
    said = variant.recipe or "its own recipe"
    print(f"exporting {variant.model.name}, {said} ...", file=sys.stderr, flush=True)
    place = out / f"{reference.name}-{re.sub(r'[^a-z0-9]+', '-', variant.name.lower())}.edgec"
    bundle = edgec.export(str(variant.model), target="host", recipe=variant.recipe, out=place, force=True)
    (measured,) = side_by_side([bundle], reference / HELD_OUT, reference=str(reference))
    text = edgec.load(bundle).generate(prompt, max_new_tokens=160, temperature=0.7, seed=1).text
    return Outcome(variant.name, measured, two_sentences(prompt + text))


def outcome_table(outcomes: Sequence[Outcome]) -> WordTable:
    """The figures, a row for each size."""
    table = WordTable(title="side by side (measured here)")
    table.add_column("")
    for head in FIGURES:
        table.add_column(head, justify="right")
    for one in outcomes:
        table.add_row(one.name, *one.measured.cells())
    return table


def phone_table() -> WordTable:
    """What three phones would do with Qwen3-0.6B in 4 bits, estimated from its config."""
    table = WordTable(title="Qwen3-0.6B on phones, 4 bits (estimated by edgec plan)")
    for head in ("phone", "size, MB", "peak memory, MB", "of its memory", "tokens/s"):
        table.add_column(head, justify="left" if head == "phone" else "right")
    for name in PHONES:
        target = load_target(name)
        forecast = answer(Question(str(PLANNED), name, recipe="4bit")).plan
        speed, peak = forecast.speeds.decode_tokens_per_s, forecast.footprint.peak_bytes
        shown = "unavailable" if speed is None else f"{speed.low:,.0f} to {speed.high:,.0f}"
        size = f"{forecast.footprint.size_bytes.mid / 1e6:.1f}"
        memory = f"{peak.low / 1e6:.0f} to {peak.high / 1e6:.0f}"
        share = "unknown" if target.memory_bytes is None else f"at most {peak.high / target.memory_bytes:.1%}"
        table.add_row(target.phone_name, size, memory, share, shown)
    return table


@quiet()
def show(model: Path, out: Path, prompt: str) -> None:
    """Make and measure every size, and print all of it."""
    out.mkdir(parents=True, exist_ok=True)
    outcomes = [show_variant(variant, model, out, prompt) for variant in variants(model, out)]
    shutil.copyfile(model / HELD_OUT, out / HELD_OUT)  # the commands at the end read it there
    console = make_console(piped=SCREEN)
    texts = chat_demo.text_table((one.name, one.text) for one in outcomes)
    console.print(outcome_table(outcomes), "", texts, "", phone_table())
    chosen = Path(outcomes[1].measured.bundle)
    print(f"\nThe report: {chosen / 'report.html'}\nNext, in {out}:")
    for command in next_commands(read_manifest(chosen)):
        print(f"  {command}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description="Export the example model in several sizes, side by side.")
    parser.add_argument("--model", type=Path, default=Path(__file__).parent / "tiny-stories", help="model folder")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for the bundles")
    parser.add_argument("--prompt", help=f"text to continue ({PROMPT!r}), or question to a model in a GGUF file")
    given = parser.parse_args(arguments)
    if given.model.is_file():
        asked = ["--prompt", given.prompt] if given.prompt else []
        return chat_demo.main(["--model", str(given.model), "--out", str(given.out), *asked])
    try:
        show(given.model, given.out, given.prompt or PROMPT)
    except EdgecError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
