"""AWS Device Farm against a client that answers in the service's documented shape; the archive's script really runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.devices.cloud import device_farm
from edgec.devices.cloud.device_farm import Farm, Get, collect, submit
from edgec.devices.cloud.farm_package import REMOTE, FarmPackage, write_farm_package
from edgec.devices.cloud.recorded import RecordedTransport
from edgec.devices.runner.files import RunnerPackage
from edgec.devices.transport import Address
from edgec.errors import InputError, ToolError
from edgec.runtime_py.bench.bench import BenchPlan, bench_on
from edgec.runtime_py.bench.run import planned_jobs
from tests.devices.phone.phone import COMMANDS, LoopbackPhone
from tests.runtime_py.tiny_decoder import manifest

STAND_IN = Path(__file__).parents[1] / "phone" / "stand_in_runner.py"
PLAN = BenchPlan(prompt_tokens=20, new_tokens=4, warmups=1)


class Client:
    """A stand-in for Device Farm's client: uploads go through two states, the run through three."""

    def __init__(self, upload: str = "SUCCEEDED", artifacts: bool = True) -> None:
        self.upload, self.artifacts = upload, artifacts
        self.asked: dict[str, int] = {}
        self.scheduled: dict[str, Any] = {}

    def create_upload(self, **fields: Any) -> dict[str, Any]:
        return {
            "upload": {"arn": f"arn:{fields['type']}", "url": f"https://x/{fields['name']}", "status": "INITIALIZED"}
        }

    def get_upload(self, **fields: Any) -> dict[str, Any]:
        arn = str(fields["arn"])
        return {"upload": {"arn": arn, "status": self._state(arn, ["PROCESSING", self.upload]), "metadata": "bad zip"}}

    def schedule_run(self, **fields: Any) -> dict[str, Any]:
        self.scheduled = fields
        return {"run": {"arn": "arn:run", "status": "SCHEDULING"}}

    def get_run(self, **fields: Any) -> dict[str, Any]:
        arn = str(fields["arn"])
        return {
            "run": {"arn": arn, "status": self._state(arn, ["PENDING", "RUNNING", "COMPLETED"]), "result": "ERRORED"}
        }

    def list_artifacts(self, **fields: Any) -> dict[str, Any]:
        if fields.get("nextToken") is None:
            return {"artifacts": [{"name": "Logcat", "url": "https://x/logcat"}], "nextToken": "2"}
        assert (fields["nextToken"], fields["arn"], fields["type"]) == ("2", "arn:run", "FILE")
        return {"artifacts": [{"name": "Customer Artifacts", "url": "https://x/out"}] if self.artifacts else []}

    def _state(self, arn: str, states: list[str]) -> str:
        self.asked[arn] = self.asked.get(arn, -1) + 1
        return states[min(self.asked[arn], len(states) - 1)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_farm, "POLL_S", 0.0)


def run_on_phone(archive: Path, folder: Path) -> Path:
    """Do what the test host and its phone do with the archive; returns the zip of outputs."""
    phone = LoopbackPhone(folder / "phone")
    with zipfile.ZipFile(archive) as made:
        made.extractall(folder)
    here = folder / "edgec"
    script = (here / "run.sh").read_text().replace(REMOTE, str(here)).replace("sleep 20", "true")
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "PHONE_SAYS": str(phone.says)}
    subprocess.run(["sh", "-c", script], env=environment, check=True)
    with zipfile.ZipFile(folder / "given.zip", "w") as outputs:
        for path in [*here.glob("job-*.jsonl"), *here.glob("facts-*.txt")]:
            outputs.write(path, f"Host_Machine_Files/$DEVICEFARM_LOG_DIR/{path.name}")
    return folder / "given.zip"


def fetched(content: bytes) -> Get:
    def get(url: str, path: Path) -> None:
        path.write_bytes(content)

    return get


@pytest.mark.long
def test_a_hosted_run_gives_the_records_of_any_other(tmp_path: Path) -> None:
    write_bundle(tmp_path / "tiny.edgec", manifest(), {"model.pte": b"weights"})
    bundle = open_bundle(tmp_path / "tiny.edgec")
    jobs = [job.to_json() for job in planned_jobs(PLAN.job(bundle))]
    package = write_farm_package(bundle, RunnerPackage({"runner": STAND_IN}, ("./runner",)), jobs, 320, tmp_path)
    put: list[str] = []
    client = Client()
    run = submit(client, package, Farm("arn:p", "arn:pool", package.archive), lambda url, path: put.append(url))
    assert run == "arn:run" and len(put) == 3 and client.scheduled["test"]["type"] == "APPIUM_NODE"
    given = run_on_phone(package.archive, tmp_path)
    outputs = collect(client, run, len(jobs), tmp_path, fetched(given.read_bytes()))
    transport = RecordedTransport(Address("adb", "farm"), jobs, outputs.jobs, outputs.facts)
    result = bench_on(transport, bundle, PLAN, None, lambda text: None)
    assert len(result.records) == 13 and result.records[0].simulated
    assert result.records[0].comparability.device == "adb:farm"


def test_the_test_spec_cleans_up_and_keeps_every_output(tmp_path: Path) -> None:
    write_bundle(tmp_path / "tiny.edgec", manifest(), {"model.pte": b"weights"})
    bundle = open_bundle(tmp_path / "tiny.edgec")
    jobs = [job.to_json() for job in planned_jobs(PLAN.job(bundle))]
    package = write_farm_package(bundle, RunnerPackage({"runner": STAND_IN}, ("./runner",)), jobs, 320, tmp_path)
    spec = yaml.safe_load(package.test_spec.read_text())
    assert spec["version"] == 0.1 and spec["phases"]["post_test"]["commands"] == [
        f"adb -s $DEVICEFARM_DEVICE_UDID shell rm -rf {REMOTE}"
    ]
    assert sum(" pull " in command for command in spec["phases"]["test"]["commands"]) == len(jobs) + 2


def test_what_the_service_refuses(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    package = FarmPackage(tmp_path / "a", tmp_path / "a")
    with pytest.raises(InputError, match="E564") as caught:
        submit(Client(upload="FAILED"), package, Farm("p", "q", tmp_path / "a"), lambda url, path: None)
    assert "bad zip" in caught.value.why
    with pytest.raises(InputError, match="E564") as caught:
        collect(Client(artifacts=False), "arn:run", 1, tmp_path, lambda url, path: None)
    assert "ERRORED" in caught.value.why
    with pytest.raises(InputError, match="E564"):
        collect(Client(), "arn:run", 1, tmp_path, fetched(b"no zip"))


def test_an_address_of_this_machine_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("secret")
    artifact = {"name": "Customer Artifacts", "url": (tmp_path / "secret").as_uri()}
    monkeypatch.setattr(Client, "list_artifacts", lambda client, **fields: {"artifacts": [artifact]})
    with pytest.raises(InputError, match="E564"):
        collect(Client(), "arn:run", 1, tmp_path)
    assert not (tmp_path / "outputs.zip").exists()


def test_pages_without_end_and_a_client_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def endless(client: Client, **fields: Any) -> dict[str, Any]:
        asked.append(fields)
        return {"artifacts": [], "nextToken": "again"}

    monkeypatch.setattr(Client, "list_artifacts", endless)
    with pytest.raises(InputError, match="E564"):
        collect(Client(), "arn:run", 1, tmp_path, fetched(b""))
    assert len(asked) <= 101
    monkeypatch.setattr(Client, "get_run", lambda client, **fields: 1 / 0)
    with pytest.raises(InputError, match="E564") as caught:
        collect(Client(), "arn:run", 1, tmp_path, fetched(b""))
    assert "ZeroDivisionError" in caught.value.why


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ToolError, match="E567") as caught:
        device_farm.farm_client()
    assert "[aws]" in caught.value.fix


def test_a_client_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def unconfigured(service: str, region_name: str) -> None:
        raise ValueError(f"no profile for {service} in {region_name}")

    monkeypatch.setitem(sys.modules, "boto3", SimpleNamespace(client=unconfigured))
    with pytest.raises(InputError, match="E564") as caught:
        device_farm.farm_client()
    assert "devicefarm in us-west-2" in caught.value.why


def test_a_run_is_collected_with_its_own_options() -> None:
    job = {"kind": "speed"}
    transport = RecordedTransport(Address("adb", "farm"), [job], [""], ["", ""])
    with pytest.raises(InputError, match="E565"):
        transport.run({"kind": "memory"})
