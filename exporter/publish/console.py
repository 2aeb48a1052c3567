"""``edgec push``: what would be pushed, or what was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.bundle.hub.address import MAIN, SCHEME, HubAddress, parse_address_text
from edgec.bundle.hub.failures import page_of
from edgec.errors import InputError
from edgec.exporter.publish.card import model_card_of
from edgec.exporter.publish.markdown import on_one_line
from edgec.exporter.publish.push import PushPlan, plan_push, push
from edgec.exporter.publish.there import CARD


def push_and_print(  # one argument for each option of the command
    bundle: Path,
    hub_id: str,
    revision: str | None,
    *,
    yes: bool,
    as_json: bool,
    private: bool,
    message: str | None,
    base_model: str | None,
    force: bool,
    show_card: bool,
) -> None:
    """Print what a push sends, and with ``yes`` send it.

    Raises:
        InputError: as `plan_push` and `push`; E873, two revisions are named.
    """
    address = _address(hub_id, revision)
    plan = plan_push(bundle, address, private=private, message=message, base_model=base_model, force=force)
    if show_card:
        print(plan.card or model_card_of(plan.bundle.manifest, address, base_model), end="")
        return
    if not as_json:
        _print_plan(plan)
    commit = push(plan) if yes else None
    if as_json:
        print(json.dumps(_facts(plan, commit)))
    elif commit is None:
        print("\nnothing was pushed: add --yes to push, --card to read the model card")
    else:
        print(f"\npushed   commit {commit}: {page_of(address.repository)}")
        print(f"use it   edgec run {address}")


def _address(hub_id: str, revision: str | None) -> HubAddress:
    address = parse_address_text(hub_id.removeprefix(SCHEME), hub_id)
    if revision is None:
        return address
    if address.revision not in (MAIN, revision):
        why, fix = f"{hub_id} names {address.revision!r}, --revision {revision!r}", "name one"
        raise InputError("Two branches are named.", "--revision", why, fix, "E873")
    parse_address_text(f"{address.repository}@{revision}", f"--revision {revision}")
    return replace(address, revision=revision)


def _print_plan(plan: PushPlan) -> None:
    print(f"push     {plan.bundle.path} to {page_of(plan.address.repository)}, branch {plan.address.revision}")
    print(f"there    {_there(plan)}")
    print(f"commit   {on_one_line(plan.message)}")
    print(f"files    {len(plan.files)}, {sum(file.bytes for file in plan.files):,} bytes, as the manifest lists them")
    width = max(len(f"{file.bytes:,}") for file in plan.files)
    for file in plan.files:
        print(f"         {file.bytes:>{width},}  {file.path}")
    if plan.stale:
        print(f"removed  {', '.join(plan.stale)}")
    card = "the one that is there stays: edgec did not write it (--force replaces it)"
    print(f"card     {CARD}, {card if plan.card is None else f'{len(plan.card.encode()):,} bytes'}")
    source = on_one_line(plan.bundle.manifest.model.source)
    if Path(source).is_absolute():
        print(f"note     the manifest names the folder that the model lay in, and will be public: {source}")


def _there(plan: PushPlan) -> str:
    there = plan.there
    if there is None:
        return f"nothing; the repository will be made, {'private' if plan.private else 'public'}"
    kind = "private" if there.private else "public"
    if there.branch_is_new:
        return f"a {kind} repository; the branch will be made"
    held = f"{on_one_line(there.manifest.name)}, digest {there.manifest.digest[:12]}" if there.manifest else "no bundle"
    return f"a {kind} repository with {held}, commit {there.commit[:12]}"


def _facts(plan: PushPlan, commit: str | None) -> dict[str, Any]:
    return {
        "repository": plan.address.repository,
        "revision": plan.address.revision,
        "new": plan.there is None,
        "private": plan.private if plan.there is None else plan.there.private,
        "files": [{"path": file.path, "bytes": file.bytes} for file in plan.files],
        "removed": list(plan.stale),
        "bytes": sum(file.bytes for file in plan.files),
        "card": plan.card is not None,
        "pushed": commit is not None,
        "commit": commit,
        "url": page_of(plan.address.repository),
    }
