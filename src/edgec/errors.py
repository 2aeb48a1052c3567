"""The errors a user sees: what went wrong, where, why, and what to do about it.

Every error carries a stable code (``E1xx`` input, ``E2xx`` budget, ``E3xx`` tool missing, ``E6xx`` signature, ``E8xx``
quantised checkpoints) and the exit code of its class: 1 user error, 2 budget missed, 3 tool missing. 70 is left for
bugs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass
class EdgecError(Exception):
    """A failure the user can act on.

    Attributes:
        what: one sentence saying what failed.
        where: the file, tensor, node or option concerned.
        why: the cause, as far as it is known.
        fix: what to do next.
        code: stable identifier, documented in docs/errors.md.
    """

    what: str
    where: str = ""
    why: str = ""
    fix: str = ""
    code: str = "E100"
    exit_code: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__init__(self.what)

    def __str__(self) -> str:
        parts = [f"{self.what} [{self.code}]"]
        parts += [f"  {name}: {text}" for name, text in self.details() if text]
        return "\n".join(parts)

    def details(self) -> tuple[tuple[str, str], ...]:
        """The labelled lines below the headline."""
        return (("where", self.where), ("why", self.why), ("fix", self.fix))

    def to_json(self) -> dict[str, str | int]:
        """The error for machines (``--json``)."""
        return {"code": self.code, "exit_code": self.exit_code, "what": self.what, **dict(self.details())}


@dataclass
class InputError(EdgecError):
    """The model, the bundle or an option is at fault."""


@dataclass
class BudgetError(EdgecError):
    """A numeric, size or fallback budget was missed; nothing was written."""

    code: str = "E200"
    exit_code: ClassVar[int] = 2


@dataclass
class ToolError(EdgecError):
    """A tool or optional dependency that this command needs is absent."""

    code: str = "E300"
    exit_code: ClassVar[int] = 3
