r"""Make the example model that tells stories: sampled by edgec's own engine, then trained on, then measured.

    python examples/train_stories.py sample  --teacher stories260K --work build/stories --tokens 12e6
    python examples/train_stories.py train   --work build/stories --out build/stories/model --minutes 90
    python examples/train_stories.py measure --teacher stories260K --work build/stories --out build/stories/model
    python examples/train_stories.py text    --work build/stories

``text`` writes the stories as one text, which the two-bit model with shared keys and values is trained on in turn
(``examples/two_bit_shared_kv/make.sh``); ``pack`` compresses the weights of that model for examples/:

    python examples/train_stories.py pack --work build/two-bit-shared/model --out examples/tiny-stories-two-bit

Each part goes on where a stopped run left it. ``sample`` may run as several processes side by side (``--share 0/2`` and
``--share 1/2``). Nothing else is trained on: the text is what the teacher, stories260K (MIT), writes at
temperatures from 0.7 to 1.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# Run as a script, only this folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stories.sampling import Share, sample
from examples.stories.settings import StorySettings

# Each part with the options that it needs beside --work.
PARTS = {"sample": ("teacher",), "train": ("out",), "measure": ("teacher", "out"), "text": (), "pack": ("out",)}


def share_of(text: str) -> Share:
    """Read ``K/N``: this process is number K, from 0, of N."""
    index, count = (int(part) for part in text.split("/"))
    if not 0 <= index < count:
        raise ValueError(text)
    return Share(index, count)


def parser() -> argparse.ArgumentParser:
    """The command line of the parts."""
    made = argparse.ArgumentParser(description="Make the example model that tells stories.")
    made.add_argument("part", choices=tuple(PARTS))
    made.add_argument("--teacher", type=Path, help="folder of stories260K (sample, measure)")
    made.add_argument(
        "--work", type=Path, required=True, help="folder for stories and the teacher's bundle (pack: the model)"
    )
    made.add_argument("--out", type=Path, help="folder for the model (train, measure, pack)")
    made.add_argument("--tokens", type=float, default=12e6, help="tokens to sample, the teacher's")
    made.add_argument("--share", type=share_of, default=Share(), help="K/N: this is process K of N (sample)")
    made.add_argument("--steps", type=int, default=StorySettings.steps, help="at most this many steps")
    made.add_argument("--minutes", type=float, default=StorySettings.minutes, help="at most this many minutes")
    made.add_argument("--threads", type=int, default=StorySettings.threads, help="processor threads (train)")
    made.add_argument("--samples", type=int, default=300, help="texts to measure")
    return made


def teacher_bundle(teacher: Path, work: Path) -> Path:
    """The teacher as a bundle for this machine in float, exported at the first call."""
    import edgec

    out = work / "teacher-float-host.edgec"
    if not out.exists():
        edgec.export(str(teacher), target="host", recipe="float", out=out)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one part."""
    made = parser()
    given = made.parse_args(arguments)
    for name in PARTS[given.part]:
        if getattr(given, name) is None:
            made.error(f"{given.part} needs --{name}")
    if given.part == "sample":
        sample(teacher_bundle(given.teacher, given.work), given.work, int(given.tokens), given.share)
    elif given.part == "text":
        from examples.stories.corpus import write_texts

        print(*write_texts(given.work), sep="\n")
    elif given.part == "pack":
        from examples.stories.packed import pack

        print(pack(given.work, given.out))
    elif given.part == "train":
        from examples.stories.training import train

        settings = StorySettings(
            stories=given.work, out=given.out, steps=given.steps, minutes=given.minutes, threads=given.threads
        )
        print(train(settings))
    else:
        from examples.stories.measure import measure

        for line in measure(given.teacher, given.work, given.out, given.samples):
            print(line, flush=True)


if __name__ == "__main__":
    main()
