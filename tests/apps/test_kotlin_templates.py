"""Chat templates in the generated Kotlin, compiled and run: all of it is transformers' text, or refused by both.

``EDGEC_CHAT_TEMPLATES`` names a folder with files of published templates, which are tried as well.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import kotlin_text
from edgec.apps.embed.chat_prompt import renderings
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.prompt_pieces import text_pieces
from edgec.apps.embed.reply_values import prompt_values
from edgec.apps.embed.template_program import template_program
from edgec.apps.embed.written_package import write_package
from edgec.bundle.chat_template import render_messages
from edgec.bundle.golden_texts import CONTENTS, GOLDEN_DAY, conversations
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, EXAMPLE, tokenizer_config
from tests.apps.chat_templates import PIECES, QWEN3, TEMPLATES
from tests.apps.ios_bundles import bundle_of
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.runtime_py.tiny_decoder import tiny_tokenizer

pytestmark = [pytest.mark.slow, WITH_KOTLIN]
PACKAGE = kotlin_text.package_name(CPU.name)
# What no published family has all of: scopes, macros, slices, filters, printing.
LANGUAGE = (Path(__file__).parent / "language.jinja").read_text()


def published() -> Mapping[str, str]:
    folder = os.environ.get("EDGEC_CHAT_TEMPLATES")
    return {file.stem: file.read_text() for file in sorted(Path(folder).rglob("*.jinja"))} if folder else {}


ALL = {**TEMPLATES, "language": LANGUAGE, **published()}


def talks() -> list[list[dict[str, str]]]:
    """The matrix, and conversations of any roles and contents."""
    draws = random.Random(17)
    texts = [text for given in CONTENTS.values() for text in given]
    roles = ["system", "user", "assistant", "tool"]
    made = [[(draws.choice(roles), draws.choice(texts)) for _ in range(draws.randint(1, 7))] for _ in range(100)]
    drawn = [[{"role": role, "content": text} for role, text in talk] for talk in made]
    return [*(messages for _, messages in conversations()), *drawn]


def wanted(tokenizer: Any, messages: list[dict[str, str]]) -> str | None:
    try:
        return render_messages(tokenizer, messages, clock=GOLDEN_DAY)
    except InputError:
        return None


def with_template(template: str) -> Any:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, list[str | None]]]:
    """What the Kotlin writes of every conversation, by the names of the templates."""
    folder = tmp_path_factory.mktemp("templates")
    cases: list[dict[str, Any]] = []
    pieces: dict[str, Any] = {}
    for name, template in ALL.items():
        tokenizer = with_template(template)
        made = text_pieces(*renderings(tokenizer))
        pieces |= {name: prompt_values(made)} if made else {}
        program = template_program(template, tokenizer.special_tokens_map)
        assert program is not None or name not in (*TEMPLATES, "language")
        tree, variables = (program.tree, dict(program.variables)) if program else ("[]", {})
        cases.append({"name": name, "tree": tree, "variables": variables, "talks": talks(), "switches": {}})
    (folder / "cases.json").write_text(json.dumps(cases))
    files = {"tokenizer/tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes()}
    own = bundle_of(CPU, folder / "own", {**files, "tokenizer/tokenizer_config.json": tokenizer_config(QWEN3)})
    write_package(gradle_modules(own), folder / "out")
    driver = (STAND_INS / "Templates.kt.txt").read_text()
    (folder / "pieces.json").write_text(json.dumps(pieces))
    (folder / "Templates.kt").write_text(driver.replace("PACKAGE", PACKAGE))
    model = sorted((folder / "out/model").rglob("*.kt"))
    classes = compiled([*sorted(STAND_INS.glob("*.kt")), *model, folder / "Templates.kt"], folder / "classes")
    line = ["java", "-Dfile.encoding=UTF-8", "-cp", classes, f"{PACKAGE}.TemplatesKt"]
    paths = [str(folder / f"{name}.json") for name in ("cases", "answers", "pieces")]
    done = subprocess.run([*line, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(ALL, json.loads((folder / "answers.json").read_text()), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_a_template_is_rendered_whole_as_transformers_does(said: Mapping[str, Any], name: str) -> None:
    tokenizer = with_template(ALL[name])
    if template_program(ALL[name], {}) is None:
        pytest.skip("it has no program")
    for messages, written in zip(talks(), said[name]["whole"], strict=True):
        assert written == wanted(tokenizer, messages), messages


@pytest.mark.parametrize("name", ALL)
def test_pieces_write_what_the_template_writes_or_refuse(said: Mapping[str, Any], name: str) -> None:
    tokenizer = with_template(ALL[name])
    rows = list(zip(talks(), said[name]["pieces"], strict=True))
    if name in PIECES:
        assert sum(written is not None for _, written in rows) >= 20
    for messages, written in rows:
        assert written in (None, wanted(tokenizer, messages)), messages


def test_the_bundles_own_template_is_the_one_that_is_used(said: Mapping[str, Any]) -> None:
    assert said["qwen3"]["own"] == said["qwen3"]["whole"]
