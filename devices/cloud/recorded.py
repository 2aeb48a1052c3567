"""A transport that replays a run from elsewhere: each job's output is known, nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgec.devices.adb.facts import PhoneState, read_parts
from edgec.devices.runner.files import check_shell_artifact
from edgec.devices.runner.job import job_result
from edgec.devices.transport import Address, DeviceFacts
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class RecordedTransport:
    """Answers jobs from their recorded outputs, in the order they were planned."""

    whole_runs = False

    def __init__(
        self, address: Address, jobs: Sequence[Mapping[str, Any]], outputs: Sequence[str], facts: Sequence[str]
    ) -> None:
        """Keep the recorded run.

        Args:
            address: the device that it ran on.
            jobs: in the order they ran.
            outputs: the runner's output for each job.
            facts: the phone's before and after, as ``adb.facts.SCRIPT`` prints them.
        """
        self.address, self._jobs, self._outputs = address, list(jobs), list(outputs)
        self._facts = [PhoneState(read_parts(text)) for text in facts]
        self.simulated = self._facts[0].simulated

    def facts(self) -> DeviceFacts:
        """The facts from before the first job; once all jobs are answered, those from after the last."""
        return self._facts[0 if self._jobs else -1].facts()

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that needs an app."""
        check_shell_artifact(bundle.manifest, str(self.address))

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The result of the next job.

        Raises:
            InputError: E565, another job ran; E548, its output cannot be read.
        """
        if not self._jobs or dict(job) != dict(self._jobs[0]):
            what, fix = "The run was made for other jobs.", "collect it with the options it was submitted with"
            raise InputError(what, str(self.address), f"the next job is {job['kind']!r}", fix, "E565")
        return job_result(self._jobs.pop(0), self._outputs.pop(0), str(self.address))

    def close(self) -> None:
        """Do nothing, since there is nothing to remove."""
