"""Documents in the order in which they answer a query: a cross-encoder and a decoder, against transformers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from edgec.runtime_py.scoring.relevance import relevance_of
from tests.exporter.tiny_sentence_encoder import POSITIONS, text_of, tokenizer
from tests.families import FAMILIES, save
from tests.runtime_py.serve.running import NAME, Running, model_of, running
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

QUERY, DOCUMENTS = "the red ball", ["a cat runs", "she saw the big park", "day", "a cat runs"]
CLIENT = pytest.mark.skipif(find_spec("cohere") is None, reason="the extra clients is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("rank") / "rank"
    words = tokenizer()
    words.save_pretrained(made)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=POSITIONS, num_labels=1, **sizes)
    model = BertForSequenceClassification(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    model.save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def ranker(folder: Path) -> Model:
    return edgec.load(edgec.export(folder, target="host", recipe="float", out=folder.parent / "rank.edgec"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A random decoder whose context has room for the instruction that judges are given."""
    folder = tmp_path_factory.mktemp("judge")
    (llama,) = [family for family in FAMILIES if family.name == "llama"]
    made = save(replace(llama, options={**llama.options, "vocab_size": VOCAB}), folder / NAME)
    tiny_tokenizer().save_pretrained(made)
    return model_of(edgec.export(made, recipe="float", context=256, out=folder / f"{NAME}.edgec"))


@pytest.fixture(scope="module")
def both(ranker: Model, model: Model) -> Iterator[Running]:
    with running(ranker, model) as made:
        yield made


def expected(folder: Path, query: str, document: str) -> float:
    from transformers import AutoModelForSequenceClassification

    read = tokenizer()(query, document, return_tensors="pt", return_token_type_ids=True)
    assert read["token_type_ids"].sum() > 0
    with torch.no_grad():
        judge = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        return float(judge(**read).logits.sigmoid())


@pytest.mark.slow
def test_a_cross_encoder_ranks_as_transformers_does(both: Running, folder: Path, ranker: Model) -> None:
    wanted = [expected(folder, QUERY, text) for text in DOCUMENTS]
    status, made = both.post("/v1/rerank", {"model": "rank", "query": QUERY, "documents": DOCUMENTS})
    assert status == 200
    scores = {one["index"]: one["relevance_score"] for one in made["results"]}
    np.testing.assert_allclose([scores[place] for place in range(4)], wanted, atol=1e-5)
    # The best first, of equals the one that came first.
    assert [one["index"] for one in made["results"]] == sorted(range(4), key=lambda place: -wanted[place])
    assert ranker.relevance(QUERY, DOCUMENTS[0]).score == scores[0]
    body = {"model": "rank", "query": QUERY, "top_n": 2, "return_documents": True}
    told = both.post("/v1/rerank", {**body, "documents": [{"text": text, "id": 3} for text in DOCUMENTS]})[1]
    assert [one["document"]["text"] for one in told["results"]] == [
        DOCUMENTS[one["index"]] for one in made["results"][:2]
    ]
    both.settle()


@pytest.mark.long
def test_a_decoder_is_asked_for_yes_or_no(both: Running, model: Model) -> None:
    documents = ["a", "b c"]
    status, made = both.post("/v1/rerank", {"model": NAME, "query": "q", "documents": documents, "instruction": "i"})
    assert status == 200, made
    yes, no = model.verdicts
    for one in made["results"]:
        prompt = model.judgement_prompt("q", documents[one["index"]], "i")
        logits = model.session.prefill(prompt, 0)
        assert one["relevance_score"] == pytest.approx(relevance_of(float(logits[yes]), float(logits[no])), abs=1e-5)
    assert (yes, no) == tuple(token_ids(model.tokenizer, word, special=False)[0] for word in ("yes", "no"))
    both.settle()


@pytest.mark.long
@CLIENT
def test_coheres_client(both: Running) -> None:
    import cohere

    client = cohere.Client(api_key="none", base_url=both.url.removesuffix("/v1"))
    made = client.rerank(model="rank", query=QUERY, documents=DOCUMENTS, top_n=3, return_documents=True)
    assert len(made.results) == 3 and made.results[0].document is not None
    assert made.results[0].relevance_score >= made.results[1].relevance_score
    both.settle()


@pytest.mark.long
def test_what_cannot_be_ranked(both: Running, model: Model, ranker: Model) -> None:
    asked = {"model": "rank", "query": QUERY, "documents": ["a"]}
    for changed, status, code in (
        ({"documents": []}, 400, "E632"),
        ({"documents": ["a"] * 1025}, 400, "E632"),
        ({"query": ""}, 400, "E632"),
        ({"documents": [text_of(POSITIONS)]}, 400, "E643"),
        ({"rank_fields": ["text"]}, 400, "E633"),
        ({"model": "none"}, 404, "E634"),
        ({"model": NAME, "documents": ["a " * 2000]}, 400, "E150"),
    ):
        made = both.post("/v1/rerank", {**asked, **changed})
        assert (made[0], made[1]["error"]["code"]) == (status, code)
    assert both.post("/v1/embeddings", {"model": "rank", "input": "a"})[1]["error"]["code"] == "E644"
    with pytest.raises(InputError, match="E897"):
        model.relevance("a", "b")
    template, model.tokenizer.chat_template = model.tokenizer.chat_template, None
    try:
        made = both.post("/v1/rerank", {**asked, "model": NAME})
    finally:
        model.tokenizer.chat_template = template
    assert made[1]["error"]["code"] == "E897"
    both.settle()


def test_relevance_is_a_probability_however_far_apart() -> None:
    assert relevance_of(0.0, 0.0) == 0.5
    assert (relevance_of(-1e4, 0.0), relevance_of(0.0, -1e4)) == (0.0, 1.0)
