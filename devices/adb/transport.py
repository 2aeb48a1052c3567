"""A phone over adb: the arm64 runner and the bundle are pushed once, each job runs in a process of its own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.devices.adb.facts import PhoneState, read_state
from edgec.devices.adb.faults import failed, wrong_abi
from edgec.devices.adb.heat import wait_cool
from edgec.devices.adb.link import ANSWER_S, Link
from edgec.devices.adb.workspace import Workspace
from edgec.devices.runner_files import RunnerPackage, arm64_runner, bundle_files
from edgec.devices.runner_job import PACKED, arguments, job_result, read_events, requests
from edgec.devices.shell_artifacts import check_shell_artifact
from edgec.devices.transport import Address, Conditions, DeviceFacts, Say

if TYPE_CHECKING:
    from edgec.exporter.bundle.folder import Bundle

ABIS = ("arm64-v8a",)
UNKNOWN = 255
_REQUESTS, _RESULTS, _ERRORS = "requests", "results.jsonl", "errors"
# The runner's exit status, as the last event of its output. Its number goes: another process may get it.
_ENDED = r'''s=$?; rm -f pid; echo; echo "{\"event\":\"ended\",\"status\":$s}"'''


class AdbTransport:
    """One phone. What is pushed lies in a folder of this run (``Workspace``)."""

    whole_runs = False

    def __init__(self, address: Address, conditions: Conditions, say: Say) -> None:
        """The phone is not asked anything yet.

        Raises:
            ToolError: E540.
        """
        self.address, self._conditions, self._say = address, conditions, say
        self._link = Link(str(address.name))
        self.simulated = False
        self._workspace: Workspace | None = None
        self._command: tuple[str, ...] = ()

    def facts(self) -> DeviceFacts:
        """Ask the phone now."""
        return read_state(self._link).facts()

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that needs an app, then a phone that cannot be used."""
        check_shell_artifact(bundle.manifest, str(self.address))
        self._link.ready()
        state = self._state()
        if state.abi not in ABIS:
            raise wrong_abi(str(self.address), state.abi)
        self.simulated = state.simulated

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Push what is missing, wait until the phone is cool, run the job, read its result file."""
        from edgec.exporter.bundle.folder import open_bundle
        from edgec.runtime_py.bench_job import vocab_size

        bundle = open_bundle(Path(job["bundle"]), check_files=False)
        with self._link.stopping.working(str(self.address)):
            return self._measured(job, self._filled(bundle), requests(job, vocab_size(bundle)))

    def _measured(self, job: Mapping[str, Any], workspace: Workspace, asked: str) -> dict[str, Any]:
        workspace.write(_REQUESTS, asked)
        wait_cool(self._state, self._conditions, self._say, str(self.address), self._link.stopping)
        self._say(f"{job['kind']} on {self.address}")
        silence_s = self._conditions.between_outputs_s(job)
        workspace.shell(self._script(job), silence_s, _Counter(job, self._say, str(self.address)))
        output = workspace.read(_RESULTS)
        status = next((event["status"] for event in read_events(output) if event["event"] == "ended"), UNKNOWN)
        if status != 0:
            raise failed(str(self.address), status, workspace.read(_ERRORS), f"The job {job['kind']!r}")
        return job_result(job, output, str(self.address))

    def close(self) -> None:
        """Stop what another thread does, then the runner, and remove the folder; nothing is raised.

        The phone may be gone. A push that is under way ends first: the daemon makes a removed folder anew for it.
        """
        self._link.stop()
        with self._link.stopping.idle(ANSWER_S):
            if self._workspace is not None:
                with suppress(Exception):
                    self._workspace.remove(self._link.afresh(), self._conditions.keep)
                self._workspace = None

    def _state(self) -> PhoneState:
        return read_state(self._link)

    def _filled(self, bundle: Bundle) -> Workspace:
        if self._workspace is not None:
            return self._workspace
        runner = self._runner()
        # Known to ``close`` before it is made, so that none is left behind half made.
        workspace = self._workspace = Workspace(self._link, self._say)
        workspace.make()
        workspace.fill({**runner.files, **bundle_files(bundle)})
        workspace.shell(f"mkdir -p {PACKED}")
        self._command = runner.command
        return workspace

    def _runner(self) -> RunnerPackage:
        return arm64_runner(self._say)

    def _script(self, job: Mapping[str, Any]) -> str:
        """The results go to a file, which counts; what is streamed shows progress. The process id lies in ``pid``."""
        words = shlex.join([*self._command, *arguments(job, ".")])
        own = shlex.quote(f"echo $$ > pid; exec {words}")
        return f"{{ sh -c {own} < {_REQUESTS} 2> {_ERRORS}; {_ENDED}; }} | tee {_RESULTS}"


class _Counter:
    """Tells how many generations have come."""

    def __init__(self, job: Mapping[str, Any], say: Say, where: str) -> None:
        self._text = f"{job['kind']} on {where}"
        self._say, self._seen = say, 0

    def __call__(self, data: bytes) -> None:
        self._seen += data.count(b'"event":"generated"')
        self._say(f"{self._text}: {self._seen} generations")
