from __future__ import annotations

import pytest

from edgec.errors import InputError
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.generation.generate import GenerationRequest, generate
from tests.runtime_py.fake_stepper import FakeStepper, sums

ALPHABET = "_^$abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def decode(tokens: list[int]) -> str:
    return "".join(ALPHABET[token] for token in tokens)


def expected(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sums(tokens))
    return tokens[len(prompt) :]


def test_greedy_tokens_streamed_text_and_timings() -> None:
    pieces: list[str] = []
    prompt = list(range(3, 23))
    out = generate(FakeStepper(sums), prompt, GenerationRequest(max_new_tokens=6), decode, show=pieces.append)
    assert list(out.tokens) == expected(prompt, 6)
    assert out.text == decode(list(out.tokens)) == "".join(pieces)
    assert (out.finish_reason, out.prompt_tokens, len(out.token_ms)) == ("length", 20, 5)
    assert out.ttft_ms > 0 and out.decode_tokens_per_s is not None and out.decode_tokens_per_s > 0


def test_one_token_has_no_decode_speed() -> None:
    out = generate(FakeStepper(sums), [5], GenerationRequest(max_new_tokens=1), decode)
    assert out.decode_tokens_per_s is None and out.token_ms == ()


def test_nothing_is_computed_beyond_the_last_token() -> None:
    fake = FakeStepper(sums, chunk=8)
    generate(fake, list(range(3, 23)), GenerationRequest(max_new_tokens=3), decode)
    assert fake.calls == [(0, 8), (8, 8), (16, 4), (20, 1), (21, 1)]


def test_eos_ends_and_is_not_text() -> None:
    out = generate(
        FakeStepper(lambda t: 2 if len(t) == 6 else 9), [5, 6, 7], GenerationRequest(eos=frozenset([1, 2])), decode
    )
    assert (out.tokens, out.text, out.finish_reason) == ((9, 9, 9, 2), "ggg", "eos")


def test_a_stop_string_across_tokens() -> None:
    stepper = FakeStepper(lambda t: len(t) + 3)
    pieces: list[str] = []
    out = generate(stepper, [5, 6], GenerationRequest(stop=("fgh",)), decode, show=pieces.append)
    assert (out.text, out.finish_reason, out.tokens) == ("cde", "stop", (5, 6, 7, 8, 9, 10))
    assert "".join(pieces) == "cde"


def test_the_context_ends_generation_with_the_prediction_of_its_last_position() -> None:
    fake = FakeStepper(sums, context=12)
    out = generate(fake, [5] * 10, GenerationRequest(max_new_tokens=None), decode)
    assert (len(out.tokens), out.finish_reason) == (3, "context")
    assert len(fake.cache.tokens) == 12
    full = generate(FakeStepper(sums, context=12), [5] * 12, GenerationRequest(max_new_tokens=None), decode)
    assert (len(full.tokens), full.finish_reason) == (1, "context")


@pytest.mark.parametrize(("prompt", "code"), [([5] * 13, "E150"), ([], "E151")])
def test_prompts_that_cannot_run(prompt: list[int], code: str) -> None:
    fake = FakeStepper(sums, context=12)
    with pytest.raises(InputError, match=code):
        generate(fake, prompt, GenerationRequest(), decode)
    assert fake.calls == []


def test_a_cached_prefix_is_not_computed_again() -> None:
    fake = FakeStepper(sums)
    prompt = list(range(3, 23))
    first = generate(fake, prompt, GenerationRequest(max_new_tokens=4), decode)
    longer = [*prompt, *first.tokens, 7]
    fake.calls.clear()
    second = generate(
        fake, longer, GenerationRequest(max_new_tokens=2), decode, prompt_cache=PromptCache(fake.reusable)
    )
    assert list(second.tokens) == expected(longer, 2)
    assert fake.calls[0] == (23, 2) and second.cached_tokens == 23


def test_max_new_tokens_below_one() -> None:
    with pytest.raises(InputError, match="E156"):
        GenerationRequest(max_new_tokens=0)
