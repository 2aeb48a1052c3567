"""The command line: the names of all commands, whose modules are imported when they are called."""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

COMMANDS = {
    "init": "Write an edgec.toml for this folder.",
    "export": "Export a model to a verified bundle.",
    "adapt": "Train a model for few bits or shared keys and values.",
    "adapter": "Make an adapter of a LoRA that PEFT trained.",
    "run": "Generate text from a bundle.",
    "serve": "Answer clients of OpenAI's API with bundles.",
    "bench": "Measure a bundle on a device.",
    "devices": "List connected devices and any problems.",
    "compare": "Compare two measurements, or bundles side by side.",
    "eval": "Measure perplexity and agreement with the float model.",
    "sweep": "Export and measure a grid of models, recipes, targets and devices.",
    "plan": "Predict size, memory and speed on a phone.",
    "targets": "List phones, chips and machines.",
    "embed": "Write a bundle as source code for an app.",
    "ls": "List the bundles in a folder.",
    "inspect": "Show the contents of a bundle.",
    "verify": "Check a bundle and replay its golden vectors.",
    "sign": "Sign a bundle with a key.",
    "split": "Cut a bundle into parts for a download, or join them.",
    "push": "Publish a bundle on the Hugging Face hub.",
    "doctor": "Check this installation.",
    "runner": "Compile the engine for this machine.",
    "cache": "Show, list or clean what edgec keeps between calls.",
    "help": "Show a page of the guide, a command's help, or what an error means.",
}
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
EXIT_BUG, EXIT_INTERRUPTED = 70, 130


class LazyGroup(TyperGroup):
    """A group of commands that help lists without importing them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _set_examples_apart(self)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command's module."""
        return command_of(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names.

        Raises:
            InputError: E100, there is none; a similar name is suggested.
        """
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise _no_command(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _no_command(name: str) -> Exception:
    from difflib import get_close_matches

    from edgec.errors import InputError

    near = get_close_matches(name, COMMANDS, n=1)
    fix = f"did you mean edgec {near[0]}?" if near else "see edgec --help"
    return InputError(f"There is no command {name!r}.", where="edgec", fix=fix, code="E100")


def command_of(name: str) -> Any:
    """Import one command's module and make the command."""
    module = import_module(f"edgec.cli.{name}")
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, context_settings=HELP_NAMES)(getattr(module, name))
    command = typer.main.get_command(single)
    command.name = name
    _set_examples_apart(command)
    return command


def help_of(name: str) -> str:
    """The text that ``edgec NAME --help`` prints."""
    command = command_of(name)
    context = command.make_context(f"edgec {name}", [], resilient_parsing=True)
    return str(command.get_help(context))


def _set_examples_apart(command: Any) -> None:
    """Move the examples of a docstring after the options, a line each and never wrapped: they are to be copied."""
    text, _, examples = (command.help or "").partition("Examples:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    if lines:
        # The backspace keeps the formatter from filling these lines.
        command.help, command.epilog = text.rstrip(), "\n  ".join(["\b\nExamples:", *lines])


def _print_version(wanted: bool) -> None:
    if wanted:
        from edgec.installation import __version__

        typer.echo(f"edgec {__version__}")
        raise typer.Exit


app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, context_settings=HELP_NAMES)


@app.callback()
def main(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks and everything that libraries print."),
    version: bool = typer.Option(
        False, "--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """edgec: a trained PyTorch model in, a verified bundle for phones out.

    Examples:
    edgec export examples/tiny-stories --target host

    edgec run tiny-stories-host.edgec -p "Once upon a time"

    edgec help recipes
    """


def run_cli(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 ok, 1 user error, 2 budget missed, 3 tool missing, 70 bug."""
    given = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be UTF-8, nor a terminal
    try:
        from contextlib import nullcontext

        from edgec.interruption import interruptible
        from edgec.quiet import quiet

        with interruptible(), nullcontext() if "--debug" in given else quiet():
            result: Any = app(given or ["--help"], standalone_mode=False, prog_name="edgec")
        if result == EXIT_INTERRUPTED:  # what Typer makes of Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("interrupted; nothing was left behind", err=True)
        return EXIT_INTERRUPTED
    except TyperException as error:
        return _report(_usage_error(error), given)
    except Exception as error:
        return _report(error, given)


def _usage_error(error: Any) -> Exception:
    """Typer's complaint about the command line, with the parameter's name, as one of edgec's errors."""
    from edgec.errors import InputError

    context = getattr(error, "ctx", None)
    command = context.command_path if context else "edgec"
    message, fix = error.format_message(), f"see {command} --help"
    asks = context is not None and any("--prompt" in parameter.opts for parameter in context.command.params)
    if asks and "unexpected extra argument" in message:
        fix = f'give text with -p, as {command} NAME.edgec -p "Once upon a time"; {fix}'
    return InputError(message, where=command, fix=fix, code="E100")


def _report(error: Exception, given: list[str]) -> int:
    """Print an error without a traceback, unless --debug is given, and return the exit code."""
    from edgec.errors import EdgecError

    if "--debug" in given:
        raise error
    if isinstance(error, EdgecError):
        _show(error, as_json="--json" in given)
        return error.exit_code
    typer.echo(f"edgec has a bug: {type(error).__name__}: {error}", err=True)
    typer.echo("  fix: run again with --debug before the command and report it", err=True)
    return EXIT_BUG


def _show(error: Any, as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps({"error": error.to_json()}))
    else:
        from edgec.wrapping import wrapped

        typer.echo(wrapped(f"error: {error}"), err=True)
