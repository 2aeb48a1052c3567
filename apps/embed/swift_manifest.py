"""``Package.swift`` with a model's values: the manifest is Swift that reads the constants at its beginning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.constrained_calls import FOLDER
from edgec.apps.embed.engine_sources import executorch_version, shared_types
from edgec.apps.embed.facts_json import FACTS
from edgec.apps.embed.glue import Glue, executorch_branch
from edgec.apps.embed.project import SWIFT
from edgec.apps.embed.swift_engine import c_target
from edgec.apps.embed.swift_facts import bundle_folder
from edgec.apps.embed.swift_text import boolean, optional, string
from edgec.apps.embed.template_text import module_name

MANIFEST = "Package.swift"


def tokenizers_version() -> str:
    """The oldest version of swift-transformers that a package takes."""
    text = (SWIFT / MANIFEST).read_text(encoding="utf-8")
    (version,) = re.findall(r'swift-transformers\.git", from: "([\d.]+)"', text)
    return str(version)


def package_manifest(facts: AppFacts, glue: Glue) -> bytes:
    """The package's manifest.

    Raises:
        InputError: E464, the bundle's manifest names no version of ExecuTorch that the package could build.
    """
    made, version = c_target(facts, glue), facts.manifest.runtime.version
    sources = made.sources if made is not None else ()
    values = {
        "name": string(module_name(facts)),
        "minimumOS": string(".".join(map(str, glue.minimum_os))),
        "resources": _texts(_resources(facts)),
        "readsTexts": boolean(facts.has_tokenizer),
        "executorch": optional(executorch_branch(version) if glue.products else None),
        "linked": _texts(glue.products),
        "engine": optional(executorch_version(facts.manifest) if glue.engine else None),
        "folders": _texts(sorted({path.partition("/")[0] for path in sources if path.endswith(".cpp")})),
        "renamed": _texts([*made.functions, "edgec", *shared_types(sources)] if made is not None else []),
        "excluded": "[String]()",
    }
    return written(values).encode()


def written(values: dict[str, str]) -> str:
    """The project's manifest with other values of its first constants."""
    text = (SWIFT / MANIFEST).read_text(encoding="utf-8")
    for name, value in values.items():
        text, count = re.subn(
            rf"^(let {name}(?:: [^=\n]+)? = )(?:\[[^\]]*\]|.*)$", partial(_set, value), text, flags=re.M
        )
        assert count == 1, name
    return text


def _set(value: str, found: re.Match[str]) -> str:
    return found[1] + value


def _resources(facts: AppFacts) -> list[str]:
    bundle = [] if facts.in_asset_pack else [bundle_folder(facts)]
    return [FACTS, *bundle, *([] if facts.replies.held is None else [FOLDER])]


def _texts(texts: Sequence[str]) -> str:
    """A list of texts, whose type Swift could not tell where it is empty."""
    if not texts:
        return "[String]()"
    short = f"[{', '.join(map(string, texts))}]"
    return short if len(short) < 80 else "[\n" + "".join(f"    {string(text)},\n" for text in texts) + "]"
