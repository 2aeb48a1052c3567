"""The C interface that prepares images without an engine: tiles, texts and places are those of Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.image_preparation import PREPARATION, PreparationFile
from edgec.bundle.mrope import mrope_positions
from edgec.bundle.noncausal_spans import span_ends
from tests.apps.vision_app_bundles import PREPARED
from tests.engine.images_library import Images
from tests.engine.test_vision import INFO, ROUNDING
from tests.engine.vision_library import Refused
from tests.engine.vision_program import write_vision
from tests.image_preparations import CASES
from tests.vision_language import picture

REFUSED, UNDESCRIBED, SIZE, TOO_MANY, MISPLACED, NEEDED = 1, *range(33, 38)


def status_of(run: Callable[[], Any]) -> int:
    """The status of a call that is refused."""
    with pytest.raises(Refused) as refused:
        run()
    return refused.value.status


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_tiles_and_texts_are_those_of_the_processor(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    prompts = case.prompts(tmp_path)
    images = Images(write_vision(tmp_path, prompts.info, case.described(tmp_path)))
    shape = (3, prompts.info.height, prompts.info.width)
    own = json.loads((tmp_path / PREPARATION).read_text())["preparation"]["texts"]
    options = {"add_special_tokens": False} if own.get("special_tokens") == "never" else {}
    for size in ((50, 40), (1, 1), (30, 90)):
        image = picture(*size)
        wanted = prompts.prompt("is this a house", [image], rendered=False)
        np.testing.assert_allclose(images.tiles(image, shape), wanted.pixels, rtol=0, atol=ROUNDING)
        written = images.prompt("is this a house", [size])
        assert case.tokenizer(written, **options)["input_ids"] == wanted.tokens
    images.close()


@pytest.mark.parametrize("ahead", ["none", "image", "prompt"])
@pytest.mark.parametrize("grid", [None, (2, 3)])
def test_places_are_those_of_python(ahead: Any, grid: tuple[int, int] | None, tmp_path: Path) -> None:
    info, row = INFO.model_copy(update={"ahead": ahead, "grid": grid}), [4] * 6
    images = Images(write_vision(tmp_path, info, PREPARED))
    for tokens, tiles in (([9, 9, *row, 9, 8], 1), ([*row, *row, 7], 2), ([9, *row, 9, *row], 2)):
        made = images.places(tokens, tiles)
        span_end = span_ends(ahead, tokens, 4, len(tokens))
        assert made["rows"] == np.flatnonzero(np.asarray(tokens) == 4).tolist()
        assert made["span_end"] == (None if ahead == "none" else span_end.tolist())
        first = min([made["rows"][0], *np.flatnonzero(span_end > np.arange(len(span_end)))[:1].tolist()])
        assert made["kept"] == first
        if grid is None:
            assert made["mrope"] is None
        else:
            wanted = mrope_positions(tokens, 4, grid, len(tokens) + 1)
            assert made["mrope"] == wanted[:, :-1].ravel().tolist() and made["next"] == wanted[0, -1]
    images.close()


def test_what_does_not_fit_is_refused_by_its_own_status(tmp_path: Path) -> None:
    images = Images(write_vision(tmp_path, INFO, PREPARED))
    mark, room = "<image>", INFO.limits.context
    statuses = {
        (SIZE, "too long"): lambda: images.count(101, 1),
        (SIZE, "empty"): lambda: images.prompt("a", [(0, 1)]),
        (TOO_MANY, "asked"): lambda: images.prompt("", [(5, 5)] * room),
        (MISPLACED, "named"): lambda: images.prompt(mark * 2, [(5, 5)]),
        (MISPLACED, "no image"): lambda: images.places([8, 4], 0),
        (MISPLACED, "few places"): lambda: images.places([4] * 6, 2),
        (REFUSED, "none at all"): lambda: images.count(5, 5, 0),
        (REFUSED, "no tokens"): lambda: images.places([], 0),
        (REFUSED, "too long a prompt"): lambda: images.places([8] * (room + 1), 0),
        (REFUSED, "negative"): lambda: images.places([8], -1),
        (REFUSED, "room"): lambda: images.tiles(picture(5, 5), (3, 4, 5)),
    }
    for (status, name), run in statuses.items():
        assert status_of(run) == status, name
    assert images.places([8, 9, 10], 0)["kept"] == 3 and images.prompt("a b", []) == "a b"
    images.close()
    whole = INFO.model_copy(update={"ahead": "prompt"})
    images = Images(write_vision(tmp_path, whole, PREPARED))
    assert status_of(lambda: images.places([8, 9], 0)) == NEEDED
    images.close()
    odd = write_vision(tmp_path, INFO, PreparationFile(lacking="its processor is odd"))
    assert status_of(lambda: Images(odd)) == UNDESCRIBED
