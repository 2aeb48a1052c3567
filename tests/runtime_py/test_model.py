from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import edgec
from edgec.bundle.folder import write_bundle
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from tests.runtime_py.tiny_decoder import CONTEXT, manifest

PROMPT = "Once upon a time there was a little"


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


@pytest.fixture(scope="module")
def reference(tiny_model_dir: Path) -> AutoModelForCausalLM:
    return AutoModelForCausalLM.from_pretrained(tiny_model_dir)


def transformers_tokens(reference: AutoModelForCausalLM, prompt: list[int], **options: object) -> tuple[int, ...]:
    ids = torch.tensor([prompt])
    out = reference.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)
    return tuple(out[0, len(prompt) :].tolist())


@pytest.mark.parametrize("penalty", [None, 1.4])
def test_greedy_equals_transformers_token_for_token(
    model: Model, reference: AutoModelForCausalLM, penalty: float | None
) -> None:
    prompt = model.encode(PROMPT)
    expected = transformers_tokens(reference, prompt, max_new_tokens=40, repetition_penalty=penalty or 1.0)
    out = model.generate(PROMPT, max_new_tokens=40, repetition_penalty=penalty)
    assert out.tokens == expected
    assert out.text == model.decode(expected)
    assert out.load_ms is not None and out.load_ms > 0


def test_a_prompt_longer_than_a_chunk_up_to_the_context(model: Model, reference: AutoModelForCausalLM) -> None:
    prompt = [1, *(3 + i % 300 for i in range(CONTEXT - 9))]
    out = model.generate(prompt, max_new_tokens=None)
    assert out.tokens[:8] == transformers_tokens(reference, prompt, max_new_tokens=8)
    assert out.finish_reason in ("context", "eos")


def test_a_seed_repeats_itself_and_another_differs(model: Model) -> None:
    first, again, other = (model.generate(PROMPT, max_new_tokens=30, temperature=1.0, seed=s) for s in (1, 1, 2))
    assert first.tokens == again.tokens != other.tokens


def test_text_is_streamed_and_stops(model: Model) -> None:
    pieces: list[str] = []
    whole = model.generate(PROMPT, max_new_tokens=20)
    stop = whole.text[5:8]
    out = model.generate(PROMPT, max_new_tokens=20, stop=stop, stream=pieces.append)
    assert out.finish_reason == "stop"
    assert out.text == "".join(pieces) == whole.text[: whole.text.index(stop)]


def test_template_and_plain_text_give_different_prompts(model: Model) -> None:
    assert model.has_template
    assert model.encode("Hi", template=True)[0] == model.tokenizer.convert_tokens_to_ids("<|user|>")
    assert model.encode("Hi")[0] == 1


def test_chat_reuses_the_cache_with_equal_tokens(model: Model, reference: AutoModelForCausalLM) -> None:
    chat = model.chat()
    chat.say("Hello", model.request(max_new_tokens=6))
    reply = chat.say("Go on", model.request(max_new_tokens=6))
    prompt = chat.encode(chat.messages[:3])
    assert reply.generation.cached_tokens > 0
    assert reply.generation.tokens == transformers_tokens(reference, prompt, max_new_tokens=6)


def test_the_tokenizer_is_the_models(model: Model, tiny_model_dir: Path) -> None:
    assert model.encode(PROMPT) == AutoTokenizer.from_pretrained(tiny_model_dir)(PROMPT)["input_ids"]
    assert model.eos == {2}


def test_a_bundle_without_a_tokenizer_takes_tokens_only(tiny_bundle: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "bare.edgec", manifest(), {"model.pte": tiny_bundle / "model.pte"})
    bare = edgec.load(tmp_path / "bare.edgec")
    out = bare.generate([1, 30, 31], max_new_tokens=5)
    assert (len(out.tokens), out.text) == (5, "")
    with pytest.raises(InputError, match="E158"):
        bare.generate("Hi")


def test_text_that_is_no_unicode_is_refused(model: Model) -> None:
    for ask in (model.generate, lambda text: model.chat().say(text, model.request())):
        with pytest.raises(InputError) as caught:
            ask("\udcff bytes of a command line that were not UTF-8")
        assert caught.value.code == "E152"


def test_a_repetition_penalty_of_zero_is_refused_not_ignored(model: Model) -> None:
    with pytest.raises(InputError) as caught:
        model.request(repetition_penalty=0.0)
    assert caught.value.code == "E156"


def test_pieces_in_a_loop_are_what_generate_returns(model: Model) -> None:
    made = model.stream(PROMPT, max_new_tokens=20)
    assert "".join(made) == model.generate(PROMPT, max_new_tokens=20).text
    assert made.result is not None and made.result.load_ms == model.load_ms


def test_wrong_arguments_of_a_stream_are_refused_at_once(model: Model) -> None:
    with pytest.raises(InputError) as refused:
        model.stream([1] * (CONTEXT + 1))
    assert refused.value.code == "E150"
    with pytest.raises(InputError) as refused:
        model.stream(PROMPT, temperature=-1)
    assert refused.value.code == "E156"


def test_a_resumed_text_computes_what_is_new_alone(model: Model, tmp_path: Path) -> None:
    first = model.generate(PROMPT, max_new_tokens=8)
    model.save_session(tmp_path / "text.session")
    later = model.new_session()
    later.load_session(tmp_path / "text.session")
    tokens = [*model.encode(PROMPT), *first.tokens]
    resumed, anew = later.generate(tokens, max_new_tokens=5, resume=True), model.generate(tokens, max_new_tokens=5)
    assert resumed.tokens == anew.tokens
    assert (resumed.cached_tokens, anew.cached_tokens) == (len(tokens) - 1, 0)


def test_reprs_name_what_matters(model: Model) -> None:
    assert repr(model).startswith("<edgec Model ") and f"context {CONTEXT}" in repr(model)
    assert max(map(len, (repr(model), repr(model.bundle), repr(model.bundle.manifest)))) < 160


def test_dir_lists_the_api_alone() -> None:
    assert dir(edgec) == sorted(edgec.__all__) and "load" in dir(edgec)
