"""The output of ``edgec ls``: the bundles of a folder, a line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edgec.bundle.folder import read_manifest
from edgec.bundle.signature_file import is_signed
from edgec.errors import EdgecError, InputError
from edgec.terminal import WordTable, make_console

_SUFFIX = ".edgec"


@dataclass(frozen=True)
class ListedBundle:
    """A bundle as its manifest describes it.

    Attributes:
        size_bytes: of all files, as listed.
        passed: whether every gated comparison of the export was within its budget; None where there was none.
        signed: it has a signature; whose, and whether it is right, was not checked.
        problem: why the manifest cannot be read; then everything else is empty.
    """

    path: Path
    target: str = ""
    recipe: str = ""
    size_bytes: int = 0
    passed: bool | None = None
    created: str = ""
    signed: bool = False
    problem: str = ""


def list_bundles(folder: Path, as_json: bool) -> None:
    """Print the bundles of a folder.

    Raises:
        InputError: E101, there is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r}.", str(folder), fix="check the path", code="E101")
    listed = [read_listed(path) for path in sorted(folder.glob(f"*{_SUFFIX}")) if path.is_dir()]
    if as_json:
        print(json.dumps({"bundles": [{**asdict(one), "path": str(one.path)} for one in listed]}))
    elif listed:
        make_console().print(bundle_table(listed))
    else:
        print(f"no bundles in {folder}; edgec export makes one")


def read_listed(path: Path) -> ListedBundle:
    """Read what a list shows of a bundle; one that cannot be read is listed with its problem."""
    try:
        manifest = read_manifest(path)
    except EdgecError as error:
        return ListedBundle(path, problem=f"{error.what} [{error.code}]")
    gated = [rung.passed for rung in manifest.parity if rung.gated]
    return ListedBundle(
        path,
        manifest.target,
        manifest.recipe_name,
        sum(file.bytes for file in manifest.files),
        all(gated) if gated else None,
        manifest.build.created,
        is_signed(path),
    )


def bundle_table(listed: Sequence[ListedBundle]) -> WordTable:
    """One row per bundle."""
    table = WordTable("bundle", "target", "recipe")
    table.optional = ("signature", "created", "target", "recipe")
    table.add_column("MB", justify="right")
    table.add_column("comparisons")
    table.add_column("created")
    table.add_column("signature")
    for one in listed:
        verdict = {True: "passed", False: "MISSED", None: "not compared"}[one.passed]
        shown = (
            (f"{one.size_bytes / 1e6:,.1f}", verdict, one.created[:10], "not checked" if one.signed else "none")
            if not one.problem
            else ("", one.problem, "", "")
        )
        table.add_row(one.path.name, one.target, one.recipe, *shown)
    return table
