"""The manifest on the adapters of an artifact: each of its methods exists once more under every one of them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from edgec.bundle.part import JsonCount, JsonPart, JsonSize, Sha256

ADAPTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""The names that adapters of an artifact may have: part of a function's name."""


class ShippedAdapter(JsonPart):
    """An adapter in an artifact: the function METHOD_NAME is METHOD with its low-rank changes.

    ``digest``: sha256 over the PEFT folder's settings and weights; ``modules``: the names of the matrices that it
    changes; ``ranks``: the different ranks of them; ``bytes``: of its A and B as the artifact stores them.
    """

    name: Annotated[str, Field(pattern=f"^{ADAPTER_NAME.pattern}$")]
    digest: Sha256
    trained_on: str = ""
    ranks: list[JsonSize]
    modules: list[str]
    bytes: JsonCount

    def __repr__(self) -> str:
        ranks = "/".join(map(str, self.ranks))
        return f"<edgec ShippedAdapter {self.name}: {len(self.modules)} modules, rank {ranks}>"
