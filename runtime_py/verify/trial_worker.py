"""``python -m edgec.runtime_py.verify.trial_worker`` executes a bundle's artifact, which may crash this process.

The job comes as JSON on stdin. With ``verify`` the golden vectors are replayed too, and the answer has their checks.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgec.bundle.folder import Bundle, open_bundle
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.engines.trial import execute_once, note_executed


def main() -> int:
    """Do the job; a refusal by the runtime is not a failure of this process."""
    # A crash is expected and explained: no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps(_answer(json.load(sys.stdin))))
    return 0


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    bundle = open_bundle(Path(job["bundle"]), check_files=False)
    engine = engine_for(bundle, job["engine"])
    # An exception is not a crash: loading the bundle will raise it again and report it.
    with suppress(Exception):
        execute_once(bundle, engine)
        note_executed(artifact_digest(bundle), engine)
        return {"executed": True, "checks": _checks(bundle, job["threads"]) if "verify" in job else []}
    return {"executed": False, "checks": []}


def _checks(bundle: Bundle, threads: int | None) -> list[dict[str, str]]:
    from edgec.bundle.golden import Golden, read_golden
    from edgec.runtime_py.model import load
    from edgec.runtime_py.verify.verify import replay_vectors

    golden = read_golden(bundle.golden_path) if bundle.golden_path else Golden()
    return [check.to_json() for check in replay_vectors(load(bundle, threads), golden)]


if __name__ == "__main__":
    sys.exit(main())
