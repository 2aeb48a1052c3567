"""What callers pass that makes no sense is refused by name, before anything is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgec.errors import InputError
from edgec.runtime_py.decoding.arguments import check_ids, stop_strings
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.model import Model, load

WRONG: dict[str, tuple[Any, ...]] = {
    "temperature": ("hot", None, float("nan"), -1, True, []),
    "top_k": (1.5, "5", None, -1),
    "top_p": (0, 2, "x", float("nan")),
    "min_p": (-0.1, 1.1, "x"),
    "repetition_penalty": (0, "x", float("inf"), float("nan")),
    "seed": (1.5, "x", -1),
}


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return load(tiny_bundle, threads=1)


@pytest.mark.parametrize("ids", [(5, 6), np.array([5, 6]), torch.tensor([5, 6]), iter([5, 6])])
def test_whole_numbers_of_any_kind_are_token_ids(ids: Any) -> None:
    assert check_ids(ids) == [5, 6]


@pytest.mark.parametrize("prompt", [[1.5], None, 5, True, b"text", ["5"], [None], [[5]], [-1], [1 << 40], [10**400]])
def test_what_is_no_prompt_is_refused(prompt: Any, model: Model) -> None:
    with pytest.raises(InputError) as caught:
        model.generate(prompt)
    assert caught.value.code == "E152"


@pytest.mark.parametrize("stop", [[5], 5, [None], 1.5, [b"x"], object()])
def test_stop_strings_are_strings(stop: Any, model: Model) -> None:
    with pytest.raises(InputError) as caught:
        model.generate([5], stop=stop)
    assert caught.value.code == "E156"
    assert (stop_strings("x"), stop_strings(None), stop_strings(["a", "b"])) == (("x",), (), ("a", "b"))


@pytest.mark.parametrize(
    "options",
    [{name: value} for name, values in WRONG.items() for value in values],
)
def test_a_sampling_option_outside_its_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Sampling(**options)
    assert caught.value.code == "E156" and caught.value.where in options


@pytest.mark.parametrize("count", [0, -1, 1.5, "5", True, float("inf")])
def test_a_count_of_tokens_is_a_count(count: Any) -> None:
    with pytest.raises(InputError) as caught:
        GenerationRequest(max_new_tokens=count)
    assert caught.value.code == "E156"
    three: Any = np.int64(3)
    assert GenerationRequest(max_new_tokens=three).max_new_tokens == 3


@pytest.mark.parametrize("bundle", [None, 5, b"path", "a\0b", "x" * 5000, ["x"]])
def test_what_is_no_bundle_is_refused(bundle: Any, model: Model) -> None:
    with pytest.raises(InputError) as caught:
        load(bundle)
    assert caught.value.code == "E130"
    with pytest.raises(InputError, match=r"E1[39]"):
        model.generate([5], speculate=bundle)


@pytest.mark.parametrize("text", [5, None, "\ud800", b"x"])
def test_a_message_is_text(text: Any, model: Model) -> None:
    with pytest.raises(InputError) as caught:
        model.chat().say(text, model.request())
    assert caught.value.code == ("E628" if text is None else "E152"), "without a message there is nothing to go on from"
    if text is not None:
        with pytest.raises(InputError, match="E152"):
            model.chat(system=text)


def test_a_path_that_is_not_utf_8_is_a_path(tiny_bundle: Path, tmp_path: Path) -> None:
    from shutil import copytree

    path = tmp_path / b"\xff\xfe.edgec".decode("utf-8", "surrogateescape")
    copytree(tiny_bundle, path)
    here = load(path, threads=1)
    assert here.generate([5, 6], max_new_tokens=2).tokens == load(tiny_bundle).generate([5, 6], max_new_tokens=2).tokens
    assert here.encode("Once") == load(tiny_bundle).encode("Once")


@pytest.mark.long
def test_a_long_prompt_is_refused_without_being_read_whole(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, read = model.tokenizer, []

    class Counting:
        chat_template = tokenizer.chat_template

        def __call__(self, text: str, **options: Any) -> Any:
            read.append(len(text))
            return tokenizer(text, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    other = model.new_session()
    other.__dict__["tokenizer"] = Counting()
    long = "Once upon a time. " * 600_000
    for template in (False, True):
        read.clear()
        with pytest.raises(InputError) as caught:
            other.generate(long, template=template)
        assert caught.value.code == "E150" and sum(read) < 100_000
    with pytest.raises(InputError, match="E150"):
        other.chat().say(long, other.request())


def test_text_that_gives_few_tokens_is_read_whole(model: Model) -> None:
    """White space that a tokenizer leaves out makes a text long and its tokens few."""
    from edgec.bundle.encoding import token_ids

    class Words:
        def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
            return {"input_ids": [len(word) for word in text.split()]}

    assert token_ids(Words(), "a " + " " * 100_000 + "bb", enough=5) == [1, 2]


def test_a_text_that_loses_its_beginning_is_read_whole() -> None:
    """The beginning of a long text says nothing of its end."""
    from edgec.bundle.encoding import token_ids

    class Words:
        truncation_side = "left"

        def __call__(self, text: str, max_length: int | None = None, **options: Any) -> dict[str, list[int]]:
            ids = [len(word) for word in text.split()]
            return {"input_ids": ids if max_length is None else ids[-max_length:]}

    assert token_ids(Words(), "aaa " * 10_000 + "bb", enough=5, most=5) == [3, 3, 3, 3, 2]
