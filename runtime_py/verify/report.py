"""What a verification found: its checks, as a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

CheckStatus = Literal["passed", "failed", "warning", "unavailable"]


@dataclass(frozen=True)
class BundleCheck:
    """One check and its outcome. ``unavailable``: the bundle or this machine gives nothing to check it with."""

    name: str
    status: CheckStatus
    detail: str

    def to_json(self) -> dict[str, str]:
        """The check as plain data."""
        return {"name": self.name, "status": self.status, "detail": self.detail}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> BundleCheck:
        """Make the check that `to_json` wrote."""
        return cls(**fields)


@dataclass(frozen=True)
class VerifyReport:
    """All checks of one bundle; a bundle that is not intact raises an InputError instead."""

    bundle: Path
    checks: tuple[BundleCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "failed" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        checks = [check.to_json() for check in self.checks]
        return {"bundle": str(self.bundle), "passed": self.passed, "checks": checks}
