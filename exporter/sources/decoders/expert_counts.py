"""The counts of a mixture of experts, under the names that families give them in their configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
_CHOSEN = ("num_experts_per_tok", "top_k_experts", "moe_k", "moe_topk", "moe_top_k")


def experts_of(config: Mapping[str, Any]) -> int:
    """The experts of each layer that a text config names; 0 where it names none."""
    return _first(config, _EXPERTS)[1] or 0


def chosen_share(config: Mapping[str, Any]) -> float:
    """The share of the experts that a token uses; 1 where the config names no experts."""
    experts, (_, chosen) = experts_of(config), _first(config, _CHOSEN)
    return chosen / experts if experts and chosen else 1.0


def routing_fault(config: Mapping[str, Any]) -> str:
    """What a router cannot do with the counts of a config; "" where they agree.

    A router that chooses more experts than there are fails while it is traced; one whose groups do not divide the
    experts (DeepSeek V3, arXiv:2412.19437) compares the wrong ones.
    """
    experts, (name, chosen) = experts_of(config), _first(config, _CHOSEN, zero=True)
    groups, kept = config.get("n_group"), config.get("topk_group")
    if experts and chosen is not None and not 1 <= chosen <= experts:
        return f"{name} is {chosen}, and a layer has {experts} experts"
    if experts and isinstance(groups, int) and (groups < 1 or experts % groups):
        return f"n_group is {groups}, which does not divide {experts} experts"
    if experts and isinstance(groups, int) and isinstance(kept, int) and not 1 <= kept <= groups:
        return f"topk_group is {kept}, and there are {groups} groups of experts"
    return ""


def _first(config: Mapping[str, Any], names: Sequence[str], zero: bool = False) -> tuple[str, int | None]:
    """The first of several names that a config gives a count, above 0 unless ``zero``, and that count."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and (value or zero):
            return name, value
    return "", None
