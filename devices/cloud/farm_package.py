"""The package that AWS Device Farm runs: runner, bundle and all jobs in one archive, and the script that runs them.

Device Farm's "custom environment" gives a test host with adb and one phone; the script (its "test spec") pushes the
archive's folder to the phone's shell, runs job after job, and keeps their outputs as the run's artifacts.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.folder import Bundle
from edgec.devices.adb.facts import SCRIPT
from edgec.devices.runner.files import RunnerPackage, job_files
from edgec.devices.runner.job import PACKED, arguments, requests

FOLDER, REMOTE = "edgec", "/data/local/tmp/edgec-farm"
FACTS_BEFORE, FACTS_AFTER = "facts-before.txt", "facts-after.txt"
COOL_DOWN_S = 20


@dataclass(frozen=True)
class FarmPackage:
    """The two files that a run is made of."""

    archive: Path
    test_spec: Path


def output_name(index: int) -> str:
    """The file that job ``index`` writes."""
    return f"job-{index}.jsonl"


def write_farm_package(
    bundle: Bundle, runner: RunnerPackage, jobs: Sequence[Mapping[str, Any]], vocab_size: int, folder: Path
) -> FarmPackage:
    """Write the archive and the test spec into ``folder``.

    Args:
        bundle: the bundle to measure.
        runner: for the phone's processor.
        jobs: of ``edgec.runtime_py.bench.job``, in the order they run; one adapter at most is added.
        vocab_size: logits per position.
        folder: an existing folder.
    """
    archive, spec = folder / "edgec-farm.zip", folder / "edgec-farm.yml"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        # Device Farm takes the archive as a Node test package, which must have this file.
        made.writestr("package.json", json.dumps({"name": "edgec-farm", "version": "1.0.0"}))
        for name, path in {**runner.files, **job_files(jobs[0], bundle)}.items():
            made.write(path, f"{FOLDER}/{name}")
        for index, job in enumerate(jobs):
            made.writestr(f"{FOLDER}/requests-{index}", requests(job, vocab_size))
        made.writestr(f"{FOLDER}/facts.sh", SCRIPT)
        made.writestr(f"{FOLDER}/run.sh", _run_script(runner, jobs))
    spec.write_text(_test_spec(len(jobs)))
    return FarmPackage(archive, spec)


def _run_script(runner: RunnerPackage, jobs: Sequence[Mapping[str, Any]]) -> str:
    """The shell script that the phone runs: facts, every job, facts again."""
    lines = [f"cd {REMOTE} && mkdir -p {PACKED} && chmod 755 *", f"sh facts.sh > {FACTS_BEFORE}"]
    for index, job in enumerate(jobs):
        words = shlex.join([*runner.command, *arguments(job, ".")])
        lines += [f"sleep {COOL_DOWN_S}", f"{words} < requests-{index} > {output_name(index)}"]
    return "\n".join([*lines, f"sh facts.sh > {FACTS_AFTER}", "true"]) + "\n"


def _test_spec(jobs: int) -> str:
    """The script of the test host, as YAML; it holds only our own texts, so nothing needs escaping."""
    source = f"$DEVICEFARM_TEST_PACKAGE_PATH/{FOLDER}"
    adb = "adb -s $DEVICEFARM_DEVICE_UDID"
    wanted = [FACTS_BEFORE, FACTS_AFTER, *map(output_name, range(jobs))]
    pulls = [f"{adb} pull {REMOTE}/{name} $DEVICEFARM_LOG_DIR/{name}" for name in wanted]
    phases = {
        "test": [f"{adb} push {source} {REMOTE}", f"{adb} shell sh {REMOTE}/run.sh", *pulls],
        "post_test": [f"{adb} shell rm -rf {REMOTE}"],
    }
    text = "version: 0.1\nandroid_test_host: amazon_linux_2\nphases:\n"
    for phase, commands in phases.items():
        text += f"  {phase}:\n    commands:\n" + "".join(f"      - {command}\n" for command in commands)
    return text + "artifacts:\n  - $DEVICEFARM_LOG_DIR\n"
