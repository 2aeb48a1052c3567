from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import edgec
from edgec.cli.run import run
from edgec.errors import InputError
from edgec.runtime_py.console import run as console
from tests.runtime_py.serve.running import CALL, NOW, model_of, script
from tests.runtime_py.tiny_decoder import built

PROMPT = "Once upon a time"
SCORED_ALONE = (["--chat"], ["--embed"], ["--regex", "a"], ["--system", "y"], ["--thinking-budget", "1"])


@pytest.fixture(scope="module")
def bundle() -> Path:
    return built()[1]


def invoke(*arguments: str, text: str | None = None) -> Result:
    app = typer.Typer()
    app.command()(run)
    return CliRunner().invoke(app, list(arguments), input=text)


def answers(*arguments: str, text: str | None = None) -> list[dict[str, object]]:
    result = invoke(*arguments, "--json", text=text)
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.long
def test_raw_text_goes_to_stdout_and_timings_to_stderr(bundle: Path) -> None:
    result = invoke(str(bundle), "-p", PROMPT, "--raw", "--max-new-tokens", "12")
    assert result.exit_code == 0
    assert result.stdout.rstrip("\n") == edgec.load(bundle).generate(PROMPT, max_new_tokens=12).text.rstrip("\n")
    assert "measured" in result.stderr and "12 new tokens" in result.stderr and "tokens/s" in result.stderr


@pytest.mark.long
def test_the_chat_template_is_used_unless_raw(bundle: Path) -> None:
    templated, raw = answers(str(bundle), "-p", PROMPT)[0], answers(str(bundle), "-p", PROMPT, "--raw")[0]
    assert (templated["chat_template"], raw["chat_template"]) == (True, False)
    assert templated["tokens"] == list(edgec.load(bundle).generate(PROMPT, template=True).tokens)
    assert raw["tokens"] == list(edgec.load(bundle).generate(PROMPT).tokens)


def test_sampling_options_reach_the_sampler(bundle: Path) -> None:
    options = ["-p", PROMPT, "--raw", "--temperature", "1.5", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.01"]
    first, again, other = (answers(str(bundle), *options, "--seed", seed)[0]["tokens"] for seed in ("1", "1", "2"))
    assert first == again != other


def test_stop_strings_are_repeatable(bundle: Path) -> None:
    text = edgec.load(bundle).generate(PROMPT, max_new_tokens=20).text
    answer = answers(str(bundle), "-p", PROMPT, "--raw", "--stop", "\0never", "--stop", text[4:7])[0]
    assert answer["finish_reason"] == "stop" and answer["text"] == text[: text.index(text[4:7])]


def test_a_piped_conversation_reuses_the_cache(bundle: Path) -> None:
    first, second = answers(str(bundle), "--chat", "--max-new-tokens", "6", text="Hello\n\nGo on\n")
    assert first["cached_tokens"] == 0
    assert isinstance(second["cached_tokens"], int) and second["cached_tokens"] > 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "E156"),
        (["--chat", "--raw"], "E156"),
        (["-p", "x", "--raw", "--system", "y"], "E156"),
        (["-p", "x", "--temperature", "-1"], "E156"),
        (["-p", "word " * 400], "E150"),
        (["-p", "word " * 400, "--score", "x"], "E150"),
        (["-p", "x", "--score", ""], "E151"),
        *((["-p", "x", "--score", "y", *other], "E156") for other in SCORED_ALONE),
    ],
)
def test_errors_are_typed(bundle: Path, arguments: list[str], code: str) -> None:
    error = invoke(str(bundle), *arguments).exception
    assert isinstance(error, InputError) and error.code == code


def test_no_bundle_is_an_error_of_the_user(tmp_path: Path) -> None:
    assert isinstance(invoke(str(tmp_path / "none.edgec"), "-p", "x").exception, InputError)


def test_help_shows_examples() -> None:
    assert invoke("--help").stdout.count("edgec run tiny-stories-host.edgec") == 3


def test_a_piped_text_is_the_prompt(bundle: Path) -> None:
    expected = edgec.load(bundle).generate(PROMPT, max_new_tokens=6).text
    for given in ((), ("-p", "-")):
        answer = answers(str(bundle), *given, "--raw", "--max-new-tokens", "6", text=PROMPT + "\n")[0]
        assert answer["text"] == expected


def test_an_empty_pipe_is_no_prompt(bundle: Path) -> None:
    error = invoke(str(bundle), "--raw", text="").exception
    assert isinstance(error, InputError) and error.code == "E156"


def test_a_text_goes_on_where_it_was_left(bundle: Path, tmp_path: Path) -> None:
    options = ("--raw", "--max-new-tokens", "8", "--session", str(tmp_path / "text.session"))
    first = answers(str(bundle), "-p", PROMPT, *options)[0]
    second = answers(str(bundle), "-p", " And", *options)[0]
    whole = edgec.load(bundle).generate(f"{PROMPT}{first['text']} And", max_new_tokens=8)
    assert second["tokens"] == list(whole.tokens)
    cached = second["cached_tokens"]
    assert isinstance(cached, int) and cached > 0, "what was computed before is not computed again"


def test_texts_and_conversations_keep_to_their_own_sessions(bundle: Path, tmp_path: Path) -> None:
    talk, text = str(tmp_path / "talk.session"), str(tmp_path / "text.session")
    assert invoke(str(bundle), "-p", PROMPT, "--session", talk, "--max-new-tokens", "2").exit_code == 0
    assert invoke(str(bundle), "-p", PROMPT, "--raw", "--session", text, "--max-new-tokens", "2").exit_code == 0
    for wrong in (("--raw", "--session", talk), ("--session", text)):
        error = invoke(str(bundle), "-p", PROMPT, *wrong).exception
        assert isinstance(error, InputError) and error.code == "E156"


@pytest.mark.long
def test_a_schema_file_gives_a_value(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}')
    arguments = (str(bundle), "-p", PROMPT, "--raw", "--schema", str(tmp_path / "s.json"), "--max-new-tokens", "30")
    answer = answers(*arguments)[0]
    assert isinstance(answer["value"], dict) and answer["value"]["n"] == 7
    assert json.loads(str(answer["text"])) == answer["value"]
    assert json.loads(invoke(*arguments).stdout) == answer["value"]


def test_scores_of_texts_are_those_of_the_model(bundle: Path) -> None:
    ends = [" a time", " a red ball"]
    wanted = [vars(score) for score in edgec.load(bundle).score(PROMPT, ends)]
    options = [word for end in ends for word in ("--score", end)]
    assert answers(str(bundle), "-p", PROMPT, *options) == wanted
    piped = invoke(str(bundle), *options, text=PROMPT)
    assert piped.stdout.splitlines()[1].startswith(f'{wanted[1]["logprob"]:.4f} nats  " a red ball"  (')
    assert piped.stderr.startswith("2 texts, ") and "(measured)" in piped.stderr


@pytest.mark.long
def test_json_regex_and_grammar(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "g.lark").write_text('start: "yes" | "no"\n')
    common = (str(bundle), "-p", PROMPT, "--max-new-tokens", "20")
    assert isinstance(answers(*common, "--json-object")[0]["value"], dict)
    assert answers(*common, "--regex", "[0-9]{4}", "--chat", text="")[0]["value"].isdecimal()  # type: ignore[attr-defined]
    assert answers(*common, "--grammar", str(tmp_path / "g.lark"))[0]["text"] in ("yes", "no")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--json-object", "--regex", "a"], "E610"),
        (["--schema", "none.json"], "E611"),
        (["--grammar", "none.lark"], "E611"),
        (["--regex", "("], "E616"),
    ],
)
def test_a_structure_that_cannot_be_is_refused_before_the_bundle_is_opened(arguments: list[str], code: str) -> None:
    error = invoke("no-such.edgec", "-p", "x", *arguments).exception
    assert isinstance(error, InputError) and error.code == code


def test_a_budget_needs_a_template_that_knows_it_and_tools_need_a_template(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "now"}}]')
    tools, common = ("--tools", str(tmp_path / "tools.json")), (str(bundle), "-p", PROMPT, "--max-new-tokens", "2")
    for arguments, code in (
        (("--thinking-budget", "5"), "E625"),
        (("--thinking-budget", "-1"), "E625"),
        ((*tools, "--raw"), "E156"),
        (("--thinking-budget", "5", "--raw"), "E156"),
        (("--tools", str(tmp_path / "none.json")), "E629"),
    ):
        error = invoke(*common, *arguments, text="").exception
        assert isinstance(error, InputError) and error.code == code
    assert answers(*common, "--thinking-budget", "0")[0]["chat_template"] is True


@pytest.mark.long
def test_a_call_within_a_budget_and_the_answer_to_its_result(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([NOW]))
    arguments = (str(tiny_bundle), "--tools", str(tmp_path / "tools.json"), "--thinking-budget", "3")
    model = model_of(tiny_bundle)
    # The model would think on for as many tokens as the marker has that is forced in their place, and then call.
    forced = len(model.tokenizer("</think>", add_special_tokens=False)["input_ids"])
    thought = ("zqxj" * 9)[: 3 + forced]
    assert len(model.tokenizer(thought, add_special_tokens=False)["input_ids"]) == len(thought)
    script(model, f"<think>{thought}{CALL}", "It is noon.")
    monkeypatch.setattr(console, "load", lambda *_, **__: model)
    talk = invoke(*arguments, "--chat", text="What time is it?\nnoon\n")
    assert talk.exit_code == 0, talk.exception
    call, answer = talk.stdout.splitlines()
    assert {**json.loads(call)["tool_call"], "id": ""} == {"id": "", "name": "now", "arguments": {}}
    assert answer == "It is noon." and "zqx" in talk.stderr and "zqxj" not in talk.stderr
    (made,) = answers(*arguments, "-p", "What time is it?")
    assert made["reasoning"] == "zqx" and [each["name"] for each in made["tool_calls"]] == ["now"]  # type: ignore[attr-defined]
