"""What the Kotlin sources read of a bundle at run time."""

from __future__ import annotations

from edgec.apps.embed.android_runtimes import AndroidRuntime
from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.chat_prompt import ChatPrompt, chat_values
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.engine_project import engine_library
from edgec.apps.embed.facts_json import Section, facts_bytes, model_sections
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.number_types import INT_BITS

BUNDLE_FOLDER = "model.edgec"


def kotlin_facts(facts: AppFacts, runtime: AndroidRuntime, prompt: ChatPrompt, tokenizer: Section) -> bytes:
    """The content of ``facts.json``.

    Raises:
        InputError: E469, a number does not fit its type.
    """
    model = {
        "bundleFolder": BUNDLE_FOLDER,
        "library": engine_library(facts) if runtime.compiled else "",
        "builtAs": "edgec's engine" if runtime.compiled else "Android archive",
        "accelerated": runtime.accelerated,
        "rendersChat": renders_chat(facts, prompt),
    }
    sections = model_sections(facts, INT_BITS, model, {"callsFolder": kotlin_calls_folder(facts)})
    chat = {"chat": chat_values(prompt)} if facts.texts is not None else {}
    return facts_bytes({**sections, **chat, "tokenizer": tokenizer})


def renders_chat(facts: AppFacts, prompt: ChatPrompt) -> bool:
    """Whether an app renders conversations of text: a model with vision also where its template reads parts alone."""
    return prompt.known or (facts.vision is not None and facts.replies.plain[0] is not None)


def kotlin_calls_folder(facts: AppFacts) -> str:
    """The folder among the assets of what calls are held to; the assets of all modules of an app are one folder."""
    return f"{package_name(facts.manifest.name)}.{FOLDER}"
