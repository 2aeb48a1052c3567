"""Train the example model: a five-million-parameter Llama on two public-domain books.

    python examples/train_example.py --text tinyshakespeare.txt war-and-peace.txt --out examples/tiny-llama --minutes 65

The learning rate follows the share of the budget that is used up, in steps or in minutes, whichever is further on:
a slow machine takes fewer steps and still finishes its schedule. A stopped run continues with `--resume`.

With `--measure` it does not train: it measures the model in `--out` on the held-out text and shows samples.
Other scripts get the text that was never trained on from `examples.training.text.held_out_text`.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

# Run as a script, only this folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.training.loop import train
from examples.training.samples import measure_folder
from examples.training.settings import Settings


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the settings from the command line."""
    parser = argparse.ArgumentParser(description="Train the example model of edgec.")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="texts to train on, UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--checkpoint", type=Path, help="checkpoint file [OUT.checkpoint.pt]")
    parser.add_argument("--steps", type=int, default=Settings.steps, help="at most this many steps")
    parser.add_argument("--minutes", type=float, default=Settings.minutes, help="at most this many minutes")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--batch", type=int, default=Settings.batch, help="sequences per step")
    parser.add_argument("--threads", type=int, default=Settings.threads, help="processor threads")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument("--measure", action="store_true", help="measure the model in OUT without training")
    given = parser.parse_args(arguments)
    checkpoint = given.checkpoint or given.out.with_name(given.out.name + ".checkpoint.pt")
    base = Settings(texts=tuple(given.text), out=given.out, checkpoint=checkpoint)
    base = replace(base, threads=given.threads, resume=given.resume, measure_only=given.measure)
    return replace(base, steps=given.steps, minutes=given.minutes, seed=given.seed, batch=given.batch)


def main() -> None:
    """Train as the command line says."""
    settings = parse()
    for path in settings.texts:
        print(f"{path.name}  sha256 {fingerprint(path)}", flush=True)
    if settings.measure_only:
        print(measure_folder(settings))
        return
    progress, loss = train(settings)
    print(f"done: {progress.step} steps, {progress.tokens:,} tokens, {progress.seconds / 60:.1f} minutes; {loss}")


if __name__ == "__main__":
    main()
