"""``edgec cache`` shows, lists or cleans what edgec keeps: finished stages, compiled engines, bundles from the hub."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class CacheAction(StrEnum):
    """What to do with the cache."""

    show = "show"
    list = "list"
    clean = "clean"


def cache(
    action: Annotated[
        CacheAction, typer.Argument(help="show: sizes; list: every entry; clean: delete.")
    ] = CacheAction.show,
    *,
    kind: Annotated[
        list[str] | None, typer.Option(help="List or clean this kind only, as `show` names it; repeatable.")
    ] = None,
    older_than: Annotated[float | None, typer.Option(metavar="DAYS", help="Clean entries unused this long.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how much edgec keeps between calls, list it or delete it.

    All but what edgec bench measured is made, or fetched, again when needed.

    EDGEC_CACHE_DIR moves the folder.

    Examples:
    edgec cache

    edgec cache list --kind runner

    edgec cache clean --older-than 30

    edgec cache clean --kind stages
    """
    from edgec.exporter.cache_command import clean_cache, list_cache, show_cache

    if action is CacheAction.show:
        show_cache(json)
    elif action is CacheAction.list:
        list_cache(tuple(kind or ()), json)
    else:
        clean_cache(tuple(kind or ()), older_than, json)
