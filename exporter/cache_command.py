"""The output of ``edgec cache``: what each kind of entry takes, every entry, and what a clean-up freed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from edgec.durations import age
from edgec.exporter.cache_folder import KINDS, CacheEntry, cache_entries, check_kinds, clean
from edgec.installation import cache_root
from edgec.terminal import WordTable, make_console


def show_cache(as_json: bool) -> None:
    """Print the size of every kind of entry (measured), or every entry as JSON."""
    entries = cache_entries()
    _show(entries, cache_table(entries), as_json)


def list_cache(kinds: Sequence[str], as_json: bool) -> None:
    """Print every entry of these kinds (of all where there are none), as a table or as JSON.

    Raises:
        InputError: E115, no such kind.
    """
    check_kinds(kinds)
    entries = [one for one in cache_entries() if not kinds or one.kind in kinds]
    _show(entries, entry_table(entries, time.time()), as_json)


def _show(entries: Sequence[CacheEntry], table: WordTable, as_json: bool) -> None:
    if as_json:
        rows = [
            {"kind": one.kind, "path": str(one.path), "bytes": one.size_bytes, "last_used": one.used} for one in entries
        ]
        print(json.dumps({"folder": str(cache_root()), "entries": rows}))
        return
    console = make_console()
    console.print(table)
    console.print(f"folder {cache_root()}", soft_wrap=True, markup=False)


def entry_table(entries: Sequence[CacheEntry], now: float) -> WordTable:
    """One row per entry, the latest used first; ``now`` in seconds since 1970."""
    table = WordTable("kind")
    table.add_column("MB", justify="right")
    table.add_column("last used")
    table.add_column("name", overflow="fold")
    for one in sorted(entries, key=lambda entry: -entry.used):
        table.add_row(one.kind, f"{one.size_bytes / 1e6:,.2f}", f"{age(now - one.used)} ago", one.path.name)
    return table


def cache_table(entries: Sequence[CacheEntry]) -> WordTable:
    """One row per kind, and their sum."""
    table = WordTable("kind", "what")
    for head in ("entries", "MB"):
        table.add_column(head, justify="right")
    for kind, what in KINDS.items():
        table.add_row(kind, what, *_sums([one for one in entries if one.kind == kind]))
    table.add_row("all", "", *_sums(entries))
    return table


def _sums(entries: Sequence[CacheEntry]) -> tuple[str, str]:
    return f"{len(entries):,}", f"{sum(one.size_bytes for one in entries) / 1e6:,.1f}"


def clean_cache(kinds: Sequence[str], older_than_days: float | None, as_json: bool) -> None:
    """Delete entries that no process uses, and print what that freed.

    Raises:
        InputError: E115, no such kind; E121, an entry cannot be deleted.
    """
    check_kinds(kinds)
    freed = clean(cache_entries(), kinds, older_than_days)
    if as_json:
        print(json.dumps({"freed_bytes": freed}))
    else:
        print(f"{freed / 1e6:,.1f} MB freed in {cache_root()}")
