"""Found by optimum-cli, which reads every file of this namespace; hence no __init__.py on the way here (PEP 420)."""

from optimum.commands.export.base import ExportCommand

from edgec.cli.optimum_plugin import EdgecExportCommand

REGISTER_COMMANDS = [(EdgecExportCommand, ExportCommand)]
