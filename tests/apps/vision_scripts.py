"""What an app that sees through Core ML is asked, and what Python's runtime calls the same bundle's functions with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from edgec.bundle.chat_template import render_parts
from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from edgec.runtime_py.vision_language.processor import Prompt
from tests.apps.recorded_calls import Called
from tests.apps.recorded_vision import Recording
from tests.apps.vision_app_answers import QUESTION, placeholder_of, turn
from tests.vision_language import picture

PICTURES = (picture(50, 40), picture(30, 90, seed=1))
"""What the prompts are about, by their places."""
MOST = 6


@dataclass(frozen=True)
class Step:
    """A prompt for an app, and what Python's runtime does with it.

    Attributes:
        name: of the step.
        asked: the prompt as the program reads it.
        prompt: its tokens and tiles.
        tokens: the answer's.
        most: of them.
        fresh: nothing is kept of what came before.
        cancelled: while the first tile is read.
        wrong: how the error begins that the app throws before any call; empty: it answers.
    """

    name: str
    asked: dict[str, Any]
    prompt: Prompt
    tokens: Sequence[int] = ()
    most: int = MOST
    fresh: bool = True
    cancelled: bool = False
    wrong: str = ""

    @property
    def images(self) -> list[int]:
        """The places of its pictures."""
        turns: list[dict[str, Any]] = self.asked.get("turns", [])
        return [*self.asked.get("images", []), *(image for each in turns for image in each["images"])]

    def to_json(self) -> dict[str, Any]:
        """As the program reads it."""
        own = {"name": self.name, "most": self.most, "fresh": self.fresh, "cancelled": self.cancelled}
        return {"images": [], **self.asked, **own}


@dataclass
class Script:
    """What an app is asked of a family's bundle, with the calls that Python's runtime makes for it.

    Attributes:
        bundle: the folder.
        recording: Python's runtime.
        steps: in order.
        calls: those that an app makes as well: it reads images once while they stay the same.
    """

    bundle: Path
    recording: Recording
    steps: list[Step] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    _images: list[int] | None = None

    @property
    def info(self) -> VisionLanguageInfo:
        """The sizes of tiles and rows."""
        info = open_bundle(self.bundle).manifest.vision_language
        assert info is not None
        return info

    def begin(self) -> None:
        """The golden vectors, at the first start."""
        path = open_bundle(self.bundle).golden_path
        assert path is not None
        (vector,) = read_golden(path).outputs
        self.recording.calls.clear()
        self.recording.replay(vector)
        self.calls += self.recording.calls

    def ask(self, step: Step, held: int = 0) -> None:
        """Let Python's runtime answer; ``held``: tokens that the states have already."""
        self.recording.calls.clear()
        pixels = step.prompt.pixels if len(step.prompt.pixels) else None
        said = self.recording.ask(step.prompt.tokens, pixels, step.most, held)
        again, self._images = step.images == self._images, step.images
        self.steps.append(replace(step, tokens=said))
        self.calls += [call for call in self.recording.calls if not again or call.function != "vision_encoder"]

    def cancel(self, step: Step) -> None:
        """Let Python's runtime read the first tile alone."""
        self.recording.calls.clear()
        self.recording._session.encode_images(step.prompt.pixels[:1])
        self._images = None
        self.steps.append(step)
        self.calls += self.recording.calls

    def refuse(self, name: str, asked: dict[str, Any], wrong: str) -> None:
        """A prompt that no function is called for."""
        self.steps.append(Step(name, asked, Prompt([], np.zeros(0, np.float32)), wrong=wrong))

    def about(self, text: str, *images: int) -> tuple[dict[str, Any], Prompt]:
        """A prompt about images."""
        asked = {"text": text, "images": list(images)}
        return asked, self.recording.model.encode_images(text, [PICTURES[image] for image in images])

    def talk(self, *turns: tuple[str, str, list[int]]) -> tuple[dict[str, Any], Prompt]:
        """A conversation."""
        model = self.recording.model
        shown = [{"role": role, "text": text, "images": images} for role, text, images in turns]
        rendered = render_parts(model.tokenizer, [turn(role, text, len(images)) for role, text, images in turns])
        pictures: list[Image] = [PICTURES[image] for _, _, images in turns for image in images]
        return {"turns": shown}, model._processor.prompt(rendered, pictures, rendered=True)

    def text(self, count: int) -> tuple[dict[str, Any], Prompt]:
        """Token ids alone."""
        ids = [8 + place % 14 for place in range(count)]
        return {"tokens": ids}, Prompt(ids, np.zeros((0, 3, 1, 1), np.float32))


def held(script: Script, step: Step) -> int:
    """Leading tokens of a step that the app's cache has from the last one, whose images are the same."""
    last, tokens = script.steps[-1], step.prompt.tokens
    cached = [*last.prompt.tokens, *last.tokens[:-1]]
    states = open_bundle(script.bundle).manifest.states
    common = next((i for i, (a, b) in enumerate(zip(cached, tokens, strict=False)) if a != b), len(cached))
    if script.info.ahead == "prompt" or (any(state.layout != "full" for state in states) and common < len(cached)):
        return 0
    return min(common, len(tokens) - 1)


def script_of(bundle: Path) -> Script:
    """All that an app is asked of a bundle."""
    script = Script(bundle, Recording(bundle))
    mark, chunk, context = placeholder_of(bundle), script.recording.chunk, script.info.limits.context
    script.begin()
    script.ask(Step("first", *script.about(QUESTION, 0)))
    script.ask(Step("the same image", *script.about("what is here", 0)))
    script.ask(Step("second", *script.about(QUESTION, 1)))
    script.ask(Step("two", *script.about(f"what {mark} is this {mark} here", 0, 1)))
    if script.info.ahead != "prompt":
        script.ask(Step("text", *script.text(9)))
        script.ask(Step("long text", *script.text(context - 1), most=2))
    across = _across(script, mark, chunk, context)
    if across is not None:
        script.ask(Step("across", *across))
    several = Step("cancelled", *script.about(QUESTION, 1), cancelled=True)
    if len(several.prompt.pixels) > 1:
        script.cancel(several)
    script.refuse("loose", {"tokens": [8, script.info.image_token, 9]}, "imagesMisplaced(")
    script.refuse("misplaced", {"text": f"{mark} {QUESTION}", "images": [0, 1]}, "imagesMisplaced(")
    script.refuse("many", {"text": QUESTION, "images": [0] * context}, "imagesTooMany(")
    if script.info.ahead == "prompt":
        script.refuse("text alone", {"tokens": [8, 9]}, "imageNeeded(")
    user = ("user", QUESTION, [0])
    script.ask(Step("talk", *script.talk(user)))
    more = Step(
        "goes on", *script.talk(user, ("assistant", "a house", []), ("user", "with two doors", [])), fresh=False
    )
    script.ask(more, held(script, more))
    return script


def _across(script: Script, mark: str, chunk: int, context: int) -> tuple[dict[str, Any], Prompt] | None:
    """A prompt whose first call ends within the rows of its image; None where it has to end before or behind them."""
    if script.info.ahead != "none":
        return None
    for words in range(chunk):
        asked, prompt = script.about("is " * words + mark + " here", 0)
        ends = prompt.tokens[chunk - 1 : chunk + 1]
        if ends == [script.info.image_token] * 2 and len(prompt.tokens) + MOST < context:
            return asked, prompt
    raise AssertionError("no prompt has its image there")
