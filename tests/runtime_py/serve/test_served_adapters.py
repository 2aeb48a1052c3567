"""Adapters as models of their own: chosen by name, written together with others, never on another's keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

import edgec
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import Adapter, adapter, write_adapter
from edgec.runtime_py.adapters.make import make_adapter
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.adapters import read_adapters
from edgec.runtime_py.serve.hosted import Hosted
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.server import ServeOptions, made_server
from edgec.runtime_py.serve.slot_schedulers import BatchedSlots, OneSlot
from tests.runtime_py.adapters.loras import ATTENTION, EVERY, pairs, write_lora
from tests.runtime_py.serve.running import Running, model_of, running

NAMES = ("pirate", "poet")
PROMPT = "Once upon a time there was a little girl called Lily. She had a red ball."


@pytest.fixture(scope="module")
def adapters(four_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("served")
    for name, modules, seed in zip(NAMES, (ATTENTION, EVERY), (1, 2), strict=True):
        make_adapter(four_bits, write_lora(folder / name, pairs(modules, seed=seed)), folder / f"{name}.adapter")
    return {name: folder / f"{name}.adapter" for name in NAMES}


@pytest.fixture(scope="module")
def read(adapters: dict[str, Path]) -> dict[str, Adapter]:
    return dict(read_adapters([f"{name}={path}" for name, path in adapters.items()]))


@pytest.fixture(scope="module")
def model(four_bits: Path) -> Model:
    return model_of(four_bits)


@pytest.fixture(params=[4, 1])
def server(model: Model, read: dict[str, Adapter], request: pytest.FixtureRequest) -> Iterator[Running]:
    """A server that remembers nothing yet: one that writes answers together, and one that writes them in turns."""
    with running(model, limits=replace(DEFAULT_LIMITS, sessions=request.param), adapters=read) as made:
        assert isinstance(made.hosted[0], Hosted)
        assert isinstance(made.hosted[0].slots, BatchedSlots if request.param > 1 else OneSlot)
        yield made


def named(server: Running, name: str) -> str:
    return f"{server.hosted[0].name}:{name}" if name else server.hosted[0].name


def ask(server: Running, name: str, prompt: str = PROMPT) -> Any:
    made = server.client().completions.create(
        model=named(server, name), prompt=prompt, max_tokens=20, temperature=0, logprobs=1
    )
    assert made.model == named(server, name)
    return made


def alone(bundle: Path, path: Path | None, prompt: str = PROMPT) -> tuple[str, int]:
    """What `edgec run` writes."""
    model = edgec.load(bundle)
    model.adapter = path
    made = model.generate(prompt, max_new_tokens=20)
    return made.text, len(made.tokens)


def test_adapters_and_the_base_answer_together_as_each_does_alone(
    server: Running, four_bits: Path, adapters: dict[str, Path]
) -> None:
    prompts = (PROMPT, "She liked to play outside.")
    asked = [(name, prompt) for prompt in prompts for name in ("", *NAMES)]
    with ThreadPoolExecutor(len(asked)) as pool:
        made = list(pool.map(lambda one: ask(server, *one), asked))
    texts = [(answer.choices[0].text, answer.usage.completion_tokens) for answer in made]
    assert texts == [alone(four_bits, adapters.get(name), prompt) for name, prompt in asked]
    assert len({text for text, _ in texts[:3]}) == 3, "the adapters change too little to be tested"


def test_no_prefix_is_shared_across_adapters(server: Running) -> None:
    cached = [ask(server, name).usage.prompt_tokens_details.cached_tokens for name in ("", "pirate", "poet", "poet")]
    assert cached[:3] == [0, 0, 0] and cached[3] > 0


def test_an_answer_is_the_same_after_other_adapters_had_the_session(server: Running) -> None:
    first = [ask(server, name).choices[0].text for name in ("poet", "", "pirate")]
    assert [ask(server, name).choices[0].text for name in ("poet", "", "pirate")] == first


def test_models_are_listed_with_their_parent(server: Running) -> None:
    base = named(server, "")
    listed = {one.id: one.to_dict().get("parent") for one in server.client().models.list()}
    assert listed == {base: None, f"{base}:pirate": base, f"{base}:poet": base}
    assert server.client().models.retrieve(f"{base}:poet").id == f"{base}:poet"


def test_a_chat_names_an_adapter(server: Running) -> None:
    messages: Any = [{"role": "user", "content": "Hi"}]
    options: dict[str, Any] = {"messages": messages, "temperature": 0, "max_tokens": 12, "stream": True}
    said = {}
    for name in ("", "poet"):
        stream = server.client().chat.completions.create(model=named(server, name), **options)
        chunks = list(stream)
        assert {chunk.model for chunk in chunks} == {named(server, name)}
        said[name] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said[""] != said["poet"]


@pytest.mark.parametrize("name", ["tiny:absent", ":pirate", "absent:pirate", "pirate"])
def test_a_name_that_is_not_served_is_not_found(server: Running, name: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        server.client().completions.create(model=name, prompt="Hi")
    assert caught.value.code == "E634" and "poet" in caught.value.message


def test_adapters_that_cannot_be_served_are_refused(
    four_bits: Path, adapters: dict[str, Path], read: dict[str, Adapter], tmp_path: Path
) -> None:
    pirate = read["pirate"]
    parts = [(m, pirate.tensors[f"{m.name}.lora_A"], pirate.tensors[f"{m.name}.lora_B"]) for m in pirate.modules]
    write_adapter(adapter("0" * 64, "other", parts), tmp_path / "other.adapter")
    (tmp_path / "damaged.adapter").write_bytes(adapters["poet"].read_bytes()[:-1])
    one = f"a={adapters['poet']}"
    cases = {
        "E700": [["poet.adapter"], [f"={adapters['poet']}"], [f"a b={adapters['poet']}"], [one, one]],
        "E695": [[f"a={tmp_path / 'damaged.adapter'}"]],
        "E696": [[one, f"b={tmp_path / 'other.adapter'}"]],
    }
    for code, commands in cases.items():
        for given in commands:
            with pytest.raises(InputError) as caught, made_server(ServeOptions((four_bits,), adapters=tuple(given))):
                pass
            assert caught.value.code == code


def test_the_command_takes_them(four_bits: Path, adapters: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    line = ["serve", str(four_bits), "--port", "0", "--adapter", f"pirate={adapters['pirate']}", "--adapter", "poet"]
    assert run_cli(line) == 1 and "E700" in capsys.readouterr().err
