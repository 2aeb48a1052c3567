from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.errors import InputError
from edgec.runtime_py.console.talk import PrintedMessage, answered, chat_options_of
from edgec.runtime_py.generation.generate import GenerationRequest
from tests.runtime_py.messages.talk import TOOLS, speaker, talk, tokenizer

CALLS = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n' * 2


@pytest.mark.long
def test_lines_are_messages_or_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    chat_options = chat_options_of(tmp_path / "tools.json", 50)
    tokens = tokenizer("<tool_call> </tool_call> <think> </think>")
    chat = talk(tokens, speaker(tokens, f"<think>Hm, a clock.</think>Let me see.\n{CALLS}", "It is late."))
    replies = []
    for line in ("What time is it?", "12:00", '{"zone": "UTC"}'):
        replies.append(answered(chat, line, GenerationRequest(200), chat_options, PrintedMessage()))
    assert [reply is None for reply in replies] == [False, True, False]
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "Let me see." and lines[-1] == "It is late." and err == "Hm, a clock.\n"
    calls = [json.loads(line)["tool_call"] for line in lines[1:-1]]
    assert [call["name"] for call in calls] == ["now", "now"] and calls[0]["id"] != calls[1]["id"]
    results = [message["content"] for message in chat.messages if message["role"] == "tool"]
    assert results == ["12:00", '{"zone": "UTC"}']


def test_files_that_hold_no_tools(tmp_path: Path) -> None:
    for text, code in (("{}", "E629"), ("[3]", "E620"), (json.dumps([TOOLS[0]] * 2), "E621")):
        (tmp_path / "tools.json").write_text(text)
        with pytest.raises(InputError, match=code):
            chat_options_of(tmp_path / "tools.json", None)
