"""``python -m edgec`` and the ``edgec`` script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends it as it does afterwards."""
    try:
        from edgec.cli.app import run_cli

        status = run_cli()
    except KeyboardInterrupt:
        print("interrupted; nothing was left behind", file=sys.stderr)
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
