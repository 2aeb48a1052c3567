"""``python -m edgec.runtime_py.bench.worker`` reads one job as JSON from stdin and prints its result or its error."""

from __future__ import annotations

import json
import sys

from edgec.devices.job import job_from_json
from edgec.errors import EdgecError
from edgec.runtime_py.bench.job import run_job


def main() -> int:
    """Run the job; the exit status is the error's."""
    try:
        print(json.dumps({"result": run_job(job_from_json(json.load(sys.stdin)))}))
    except EdgecError as error:
        print(json.dumps({"error": error.to_json()}))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
