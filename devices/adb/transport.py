"""Measuring on a phone over adb: the arm64 runner and the bundle are pushed once, each job runs in its own process."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.devices.adb.facts import PhoneState, read_state
from edgec.devices.adb.faults import failed, wrong_abi
from edgec.devices.adb.heat import wait_cool
from edgec.devices.adb.link import ANSWER_S, AdbLink, AnswerLimits
from edgec.devices.adb.workspace import Workspace
from edgec.devices.runner.files import arm64_runner, check_shell_artifact, job_files
from edgec.devices.runner.job import (
    PACKED,
    arguments,
    exit_status,
    expected_events,
    job_result,
    most_output_bytes,
    requests,
)
from edgec.devices.transport import Address, Conditions, DeviceFacts, Say

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

ABIS = ("arm64-v8a",)
UNKNOWN = 255
_EVENT, _GENERATED = b'"event":', b'"event":"generated"'
_REQUESTS, _RESULTS, _ERRORS = "requests", "results.jsonl", "errors"
# The runner's exit status, as the last event of its output. The pid file goes first: its number may be reused.
_ENDED = r'''s=$?; rm -f pid; echo; echo "{\"event\":\"ended\",\"status\":$s}"'''


class AdbTransport:
    """A transport to one phone; pushed files lie in a folder of this run (``Workspace``)."""

    whole_runs = False

    def __init__(self, address: Address, conditions: Conditions, say: Say) -> None:
        """Prepare the link; the phone is not contacted yet.

        Raises:
            ToolError: E540, adb cannot be started.
        """
        self.address, self._conditions, self._say = address, conditions, say
        self._link = AdbLink(str(address.name))
        self.simulated = False
        self._workspace: Workspace | None = None
        self._command: tuple[str, ...] = ()

    def facts(self) -> DeviceFacts:
        """Read the phone's facts now."""
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
        from edgec.bundle.folder import open_bundle
        from edgec.devices.job import vocab_size

        bundle = open_bundle(Path(job["bundle"]), check_files=False)
        with self._link.stopping.working(str(self.address)):
            return self._measured(job, self._filled(job, bundle), requests(job, vocab_size(bundle)))

    def _measured(self, job: Mapping[str, Any], workspace: Workspace, asked: str) -> dict[str, Any]:
        workspace.write(_REQUESTS, asked)
        wait_cool(self._state, self._conditions, self._say, str(self.address), self._link.stopping)
        self._say(f"{job['kind']} on {self.address}")
        start, limits = time.monotonic(), self._limits(job)
        workspace.shell(self._script(job), limits, _Counter(job, self._say, str(self.address)))
        wall_s = time.monotonic() - start
        output = workspace.read(_RESULTS, limits.most_bytes)
        status = exit_status(output, UNKNOWN)
        if status != 0:
            said = workspace.shell(f"tail -c 4000 {_ERRORS}").stdout
            raise failed(str(self.address), status, said, f"The job {job['kind']!r}")
        return job_result(job, output, str(self.address), wall_s)

    def _limits(self, job: Mapping[str, Any]) -> AnswerLimits:
        """Limits that start anew with each event; other output does not count as progress."""
        between_s, count = self._conditions.between_outputs_s(job), expected_events(job)
        whole_s = between_s + job["seconds"] if count is None else between_s * (count + 1)
        return AnswerLimits(between_s, whole_s, most_output_bytes(job))

    def close(self) -> None:
        """Stop work in other threads, then the runner, and remove the folder; never raises.

        The phone may be gone. A push under way ends first, since the daemon would recreate the removed folder for it.
        """
        self._link.stop()
        with self._link.stopping.idle(ANSWER_S):
            if self._workspace is not None:
                with suppress(Exception):
                    self._workspace.remove(self._link.afresh(), self._conditions.keep)
                self._workspace = None

    def _state(self) -> PhoneState:
        return read_state(self._link)

    def _filled(self, job: Mapping[str, Any], bundle: Bundle) -> Workspace:
        if self._workspace is not None:
            return self._workspace
        runner = arm64_runner(self._say)
        # Known to ``close`` before it is made, so that a half-made one is removed, too.
        workspace = self._workspace = Workspace(self._link, self._say)
        workspace.make()
        workspace.fill({**runner.files, **job_files(job, bundle)})
        workspace.shell(f"mkdir -p {PACKED}")
        self._command = runner.command
        return workspace

    def _script(self, job: Mapping[str, Any]) -> str:
        """The shell script of a job: results go to a file, the stream shows progress, ``pid`` holds the process id."""
        words = shlex.join([*self._command, *arguments(job, ".")])
        own = shlex.quote(f"echo $$ > pid; exec {words}")
        return f"{{ sh -c {own} < {_REQUESTS} 2> {_ERRORS}; {_ENDED}; }} | tee {_RESULTS}"


class _Counter:
    """Reports how many generations have come; an event counts as progress, other output does not."""

    def __init__(self, job: Mapping[str, Any], say: Say, where: str) -> None:
        self._text = f"{job['kind']} on {where}"
        self._say, self._seen, self._line = say, 0, bytearray()

    def __call__(self, data: bytes) -> bool:
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._line += data
            return False
        lines, self._line = bytes(self._line) + head, bytearray(rest)
        self._seen += lines.count(_GENERATED)
        self._say(f"{self._text}: {self._seen} generations")
        return _EVENT in lines
