"""What the shell offers after Tab: targets, recipes, bundles and pages; each list is read when it is asked for."""

from __future__ import annotations

from pathlib import Path


def target_names(incomplete: str) -> list[str]:
    """Targets and their short names."""
    from edgec.devices.targets import aliases, all_targets

    return _beginning(incomplete, [*aliases(), *(target.name for target in all_targets())])


def phone_names(incomplete: str) -> list[str]:
    """Phones, which a target may be looked up by."""
    from edgec.devices.targets import phones

    return _beginning(incomplete, [*phones(), *target_names(incomplete)])


def recipe_names(incomplete: str) -> list[str]:
    """Recipes by name, and TOML files."""
    from edgec.exporter.recipes.file import recipe_names as known

    return _beginning(incomplete, [*known(), *_paths(incomplete, ".toml")])


def bundle_names(incomplete: str) -> list[str]:
    """Bundles, and the folders on the way to them."""
    return _beginning(incomplete, _paths(incomplete, ".edgec"))


def topic_names(incomplete: str) -> list[str]:
    """Pages of the guide, and commands."""
    from edgec.cli.app import COMMANDS
    from edgec.guide import topics

    return _beginning(incomplete, [*topics(), *COMMANDS])


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _paths(incomplete: str, suffix: str) -> list[str]:
    """What the unfinished path may become: names with the suffix, and folders."""
    folder, _, _ = incomplete.rpartition("/")
    prefix = f"{folder}/" if folder or incomplete.startswith("/") else ""
    try:
        beside = sorted(Path(prefix or ".").expanduser().iterdir())
        known = [(path.name, path.suffix == suffix, path.is_dir()) for path in beside]
    except OSError:
        return []
    hidden = incomplete.rpartition("/")[2].startswith(".")
    shown = [one for one in known if hidden or not one[0].startswith(".")]
    return [f"{prefix}{name}{'' if fits else '/'}" for name, fits, is_folder in shown if fits or is_folder]
