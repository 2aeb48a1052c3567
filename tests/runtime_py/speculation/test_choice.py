from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import Bundle, open_bundle, write_bundle
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from edgec.runtime_py.speculation.choice import vocabulary_fingerprint
from tests.runtime_py.tiny_decoder import VOCAB, manifest

PROMPTS = ["Once upon a time", "a red ball and a red ball and a red", "{}[]", "She liked to play outside. She liked to"]
SAMPLED = {"temperature": 1.1, "top_p": 0.95, "seed": 4}


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


def rewritten(source: Path, to: Path, tokenizer: str | None, **changes: object) -> Bundle:
    """The bundle with another tokenizer.json, or none."""
    names = [file for file in source.rglob("*") if file.is_file() and file.name not in ("manifest.json", "report.html")]
    files: dict[str, bytes | Path] = {file.relative_to(source).as_posix(): file for file in names}
    files = {name: content for name, content in files.items() if tokenizer or not name.startswith("tokenizer/")}
    if tokenizer:
        files["tokenizer/tokenizer.json"] = tokenizer.encode()
    write_bundle(to, manifest(**changes), files)
    return open_bundle(to)


def tokenizer_of(bundle: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((bundle / "tokenizer" / "tokenizer.json").read_text())
    return content


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.2}, SAMPLED], ids=["greedy", "penalty", "sampled"])
@pytest.mark.parametrize("choice", ["auto", "draft"])
def test_text_is_the_same_token_for_token(
    model: Model, tiny_bundle: Path, prompt: str, options: dict[str, float], choice: str
) -> None:
    """The draft model is the model itself: it guesses right, at a price the controller has to find out."""
    speculate = tiny_bundle if choice == "draft" else choice
    plain = model.generate(prompt, max_new_tokens=60, **options)  # type: ignore[arg-type]
    fast = model.generate(prompt, max_new_tokens=60, speculate=speculate, **options)  # type: ignore[arg-type]
    assert (fast.tokens, fast.text, fast.finish_reason) == (plain.tokens, plain.text, plain.finish_reason)
    assert plain.speculation is None and fast.speculation is not None
    assert fast.speculation.calls + fast.speculation.accepted >= len(fast.tokens) - 1


def test_stop_strings_and_the_end_of_the_context_come_at_the_same_place(model: Model) -> None:
    whole = model.generate(PROMPTS[0], max_new_tokens=None)
    assert model.generate(PROMPTS[0], max_new_tokens=None, speculate="ngram").tokens == whole.tokens
    stop = whole.text[20:23]
    plain, fast = (model.generate(PROMPTS[0], stop=stop, speculate=how) for how in ("off", "ngram"))
    assert (fast.text, fast.tokens, fast.finish_reason) == (plain.text, plain.tokens, "stop")


def test_a_conversation_speculates_and_says_the_same(model: Model) -> None:
    plain, request = model.chat(), model.request(max_new_tokens=12)
    said = [plain.say(text, request).text for text in PROMPTS[:2]]
    fast = model.chat(speculate="auto")
    replies = [fast.say(text, request) for text in PROMPTS[:2]]
    assert [reply.text for reply in replies] == said
    assert all(reply.generation.speculation is not None for reply in replies)


def test_what_was_learned_is_kept_with_the_model_and_not_shared_with_another_session(model: Model) -> None:
    assert model.speculator("ngram") is model.speculator("ngram")
    assert model.speculator("off") is None
    assert model.new_session().speculator("ngram") is not model.speculator("ngram")


@pytest.mark.parametrize(("choice", "code"), [("heads", "E195"), ("ngrams", "E198"), ("none.edgec", "E198")])
def test_choices_that_cannot_be(model: Model, choice: str, code: str) -> None:
    with pytest.raises(InputError, match=code) as error:
        model.generate("x", speculate=choice)
    assert choice != "ngrams" or "ngram" in error.value.fix


def test_a_folder_that_is_no_bundle(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E130"):
        model.generate("x", speculate=tmp_path)


def test_another_vocabulary_is_refused(model: Model, tiny_bundle: Path, tmp_path: Path) -> None:
    content = json.dumps(tokenizer_of(tiny_bundle), ensure_ascii=False)
    swapped = content.replace('"Ġt"', '"Ġ7"', 1)
    assert swapped != content
    other = rewritten(tiny_bundle, tmp_path / "other.edgec", swapped)
    none = rewritten(tiny_bundle, tmp_path / "none.edgec", None)
    info = manifest().model
    larger = manifest(model=info.model_copy(update={"vocab_size": VOCAB + 8})).model
    bigger = rewritten(tiny_bundle, tmp_path / "bigger.edgec", content, model=larger)
    for bundle in (other, none, bigger):
        with pytest.raises(InputError, match="E194"):
            model.generate("x", speculate=bundle)


def test_the_same_vocabulary_written_in_another_order_is_the_same(tiny_bundle: Path, tmp_path: Path) -> None:
    content = tokenizer_of(tiny_bundle)
    words = content["model"]
    assert isinstance(words, dict)
    words["vocab"] = dict(reversed(list(words["vocab"].items())))
    turned = rewritten(tiny_bundle, tmp_path / "turned.edgec", json.dumps(content, indent=1))
    assert vocabulary_fingerprint(turned) == vocabulary_fingerprint(open_bundle(tiny_bundle)) is not None


def test_a_bundle_may_lie_under_a_name_of_its_own(
    model: Model, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known word means what it says, also where a bundle is called so."""
    shutil.copytree(tiny_bundle, tmp_path / "ngram")
    monkeypatch.chdir(tmp_path)
    assert model.generate("x", max_new_tokens=2, speculate="ngram").speculation is not None
    assert model.generate("x", max_new_tokens=2, speculate="./ngram").speculation is not None


def test_a_bundle_without_a_predictor_says_so(model: Model) -> None:
    with pytest.raises(InputError, match="E195") as error:
        model.speculator("mtp")
    assert "no method draft" in error.value.why
