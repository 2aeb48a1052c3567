"""Vectors over HTTP: OpenAI's own client, refusals, both kinds of models side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openai
import pytest

import edgec
from edgec.runtime_py.model import Model
from tests.exporter.tiny_sentence_encoder import POSITIONS, save_sentence_encoder, text_of, write
from tests.runtime_py.serve.running import NAME, Running, running


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = save_sentence_encoder(tmp_path_factory.mktemp("sentences") / "vectors")
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "the red "}})
    return edgec.load(edgec.export(folder, target="host", recipe="float", out=folder.parent / "vectors.edgec"))


@pytest.fixture(scope="module")
def both(encoder: Model, model: Model) -> Iterator[Running]:
    with running(encoder, model) as made:
        yield made


@pytest.mark.long
def test_vectors_are_those_of_the_python_api(both: Running, encoder: Model) -> None:
    client, texts = both.client(), [text_of(3), text_of(9)]
    # Without a format the client asks for base64, and unpacks it.
    made = client.embeddings.create(model="vectors", input=texts)
    assert np.array_equal(np.array([each.embedding for each in made.data], np.float32), encoder.embed(texts))
    assert [each.index for each in made.data] == [0, 1] and made.usage.prompt_tokens == 5 + 11
    for given in (texts[0], encoder.tokenizer(texts[0])["input_ids"], [encoder.tokenizer(texts[0])["input_ids"]]):
        plain = client.embeddings.create(model="vectors", input=given, encoding_format="float", dimensions=32)
        assert np.array_equal(np.array(plain.data[0].embedding, np.float32), encoder.embed(texts[0]))
    both.settle()


def test_a_prompt_is_named_beside_the_input(both: Running, encoder: Model) -> None:
    for name, count in (("query", 7), ("document", 5), ("", 5), (None, 5)):
        made = both.client().embeddings.create(model="vectors", input=text_of(3), extra_body={"prompt_name": name})
        wanted = encoder.embed(text_of(3), prompt_name=name)
        assert np.array_equal(np.array(made.data[0].embedding, np.float32), wanted)
        assert made.usage.prompt_tokens == count
    both.settle()


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"input": []}, "input", "E632"),
        ({"input": [[]]}, None, "E643"),
        ({"input": [1, "a"]}, "input", "E632"),
        ({"input": {"text": "a"}}, "input", "E632"),
        ({"input": "a", "dimensions": 31}, "dimensions", "E633"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format", "E632"),
        ({"input": "a", "temperature": 1}, "temperature", "E633"),
        ({"input": text_of(POSITIONS)}, None, "E643"),
        ({"input": "a", "prompt_name": "other"}, "prompt_name", "E126"),
        ({"input": "a", "prompt_name": 3}, "prompt_name", "E632"),
        ({"input": [4], "prompt_name": "query"}, "prompt_name", "E127"),
        ({"input": [[10_000]]}, None, "E152"),
    ],
)
def test_what_cannot_be_used_is_named(both: Running, body: dict[str, object], param: str | None, code: str) -> None:
    status, answer = both.post("/v1/embeddings", {"model": "vectors", **body})
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, code, param)


def test_each_kind_of_model_answers_at_its_own_paths(both: Running) -> None:
    client = both.client()
    assert {one.id for one in client.models.list()} == {"vectors", NAME}
    for call in (
        lambda: client.embeddings.create(model=NAME, input="a"),
        lambda: client.completions.create(model="vectors", prompt="a"),
        lambda: client.chat.completions.create(model="vectors", messages=[{"role": "user", "content": "a"}]),
    ):
        with pytest.raises(openai.BadRequestError) as error:
            call()
        assert error.value.code == "E644"
    assert client.completions.create(model=NAME, prompt="a", max_tokens=2).choices
