"""``optimum-cli export edgec``: the same command as ``edgec export``, with its options.

optimum-cli imports every ``register_*.py`` in the namespace package ``optimum.commands.register``; edgec's lies in
``src/optimum`` and names the command below. This module is imported from there only, so that optimum stays optional.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from typing import Any

from optimum.commands.base import BaseOptimumCLICommand, CommandInfo


class EdgecExportCommand(BaseOptimumCLICommand):  # type: ignore[misc]
    """``optimum-cli export edgec --model MODEL [OUT] [options of edgec export]``."""

    COMMAND = CommandInfo(name="edgec", help="Export a model to a verified bundle for phones, with edgec.")

    @staticmethod
    def parse_args(parser: ArgumentParser) -> None:
        """Declare the arguments."""
        declare(parser, export_options())

    def run(self) -> None:
        """Export, and exit with edgec's code: 0 ok, 1 user error, 2 budget missed, 3 tool missing, 70 bug."""
        from edgec.cli.app import run_cli

        sys.exit(run_cli(arguments(self.args, export_options())))


def export_options() -> list[Any]:
    """The options of ``edgec export``, as click (or Typer's own copy of it) describes them."""
    from edgec.cli.app import command_of

    return [option for option in command_of("export").params if option.param_type_name == "option"]


def declare(parser: ArgumentParser, options: Sequence[Any]) -> None:
    """Give an argparse parser the options; values are passed on as text, for edgec to check."""
    parser.add_argument("-m", "--model", required=True, help="Hub id, folder, config.json or package.module:factory.")
    parser.add_argument("output", nargs="?", metavar="OUT", help="The bundle's path; the same as --out.")
    for option in options:
        help_text = (option.help or "").replace("%", "%%")
        if option.secondary_opts:
            parser.add_argument(*option.opts, dest=option.name, action=BooleanOptionalAction, help=help_text)
        elif option.is_flag:
            parser.add_argument(*option.opts, dest=option.name, action="store_true", help=help_text)
        else:
            parser.add_argument(*option.opts, dest=option.name, action="append", metavar="VALUE", help=help_text)


def arguments(given: Namespace, options: Sequence[Any]) -> list[str]:
    """The command line of ``edgec`` for the arguments that argparse read."""
    line = ["export"]
    for option in options:
        line += _words(option, getattr(given, str(option.name)))
    line += [f"--out={given.output}"] if given.output else []
    return [*line, "--", given.model]


def _words(option: Any, value: Any) -> list[str]:
    """One option as ``edgec`` reads it; nothing where it was not given."""
    if not option.is_flag:
        return [f"{option.opts[0]}={each}" for each in value or ()]
    flags: dict[Any, list[str]] = {True: option.opts, False: option.secondary_opts}
    return flags.get(value, [])[:1]
