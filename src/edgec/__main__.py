"""``python -m edgec`` and the ``edgec`` script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from edgec.cli.app import run_cli

    sys.exit(run_cli())


if __name__ == "__main__":
    main()
