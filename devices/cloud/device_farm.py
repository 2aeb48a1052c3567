"""AWS Device Farm: submit a prepared run, wait for it, fetch its outputs. The client is boto3's, or stands in for it.

    client = farm_client()                                           # pip install "edgec[aws]"
    jobs = planned_jobs(bundle, plan)
    package = write_farm_package(bundle, runner, jobs, vocab_size, folder)
    run = submit(client, package, Farm(project, pool, app))
    outputs = collect(client, run, folder)

No account has run this: it is tested against answers in the shape that the service's documentation gives.
"""

from __future__ import annotations

import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edgec.devices.cloud.client_library import not_installed
from edgec.devices.cloud.farm_package import FACTS_AFTER, FACTS_BEFORE, FarmPackage, output_name
from edgec.devices.transport import Say
from edgec.errors import InputError

REGION = "us-west-2"
"""The only one it has."""

POLL_S = 10.0
LIMIT_S = 2 * 3600.0
_OUTPUTS = "Customer Artifacts"
_MAX_BYTES = 1 << 28


class FarmClient(Protocol):
    """The part of boto3's ``devicefarm`` client that is used."""

    def create_upload(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def get_upload(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def schedule_run(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def get_run(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def list_artifacts(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102


@dataclass(frozen=True)
class Farm:
    """Where a run goes: the ARNs of the project and of the device pool, and any app (the service asks for one)."""

    project: str
    pool: str
    app: Path


@dataclass(frozen=True)
class FarmOutputs:
    """What came back: the runner's output for each job, and the phone's facts before and after."""

    jobs: tuple[str, ...]
    facts: tuple[str, str]


Put = Callable[[str, Path], None]
Get = Callable[[str, Path], None]


def farm_client() -> FarmClient:
    """The service's own client, for the account that boto3 finds.

    Raises:
        ToolError: E567, boto3 is not installed.
        InputError: E564, it finds no usable configuration.
    """
    try:
        import boto3
    except ImportError as cause:
        raise not_installed("boto3", "AWS Device Farm", "aws", cause) from cause
    try:
        made: FarmClient = boto3.client("devicefarm", region_name=REGION)
    except Exception as cause:  # botocore's errors share no base with anything here.
        raise _failed(REGION, f"{type(cause).__name__}: {cause}") from cause
    return made


def submit(
    client: FarmClient, package: FarmPackage, farm: Farm, put: Put | None = None, say: Say = lambda text: None
) -> str:
    """Upload the app, the archive and the test spec, and schedule the run.

    Returns:
        The run's ARN.

    Raises:
        InputError: E564, the service refuses a file, or does not take it within two hours.
    """
    uploads = {
        "ANDROID_APP": farm.app,
        "APPIUM_NODE_TEST_PACKAGE": package.archive,
        "APPIUM_NODE_TEST_SPEC": package.test_spec,
    }
    arns = {kind: _uploaded(client, farm, kind, path, put or _put, say) for kind, path in uploads.items()}
    test = {
        "type": "APPIUM_NODE",
        "testPackageArn": arns["APPIUM_NODE_TEST_PACKAGE"],
        "testSpecArn": arns["APPIUM_NODE_TEST_SPEC"],
    }
    run = client.schedule_run(
        projectArn=farm.project, appArn=arns["ANDROID_APP"], devicePoolArn=farm.pool, name="edgec bench", test=test
    )
    return str(run["run"]["arn"])


def collect(
    client: FarmClient, run: str, jobs: int, folder: Path, get: Get | None = None, say: Say = lambda text: None
) -> FarmOutputs:
    """Wait for a run and fetch what its jobs wrote.

    Args:
        client: of the service.
        run: the ARN.
        jobs: how many there were.
        folder: for the archive of outputs.
        get: fetches an address into a file.
        say: told the run's state.

    Raises:
        InputError: E564, the run did not end well, or its outputs are not there.
    """
    state = _awaited(lambda: client.get_run(arn=run)["run"], ("COMPLETED",), run, say)
    archive = next((item for item in _artifacts(client, run) if item.get("name") == _OUTPUTS), None)
    if archive is None:
        raise _failed(run, f"it ended as {state.get('result')}: {state.get('message') or 'there are no outputs'}")
    target = folder / "outputs.zip"
    (get or _get)(str(archive["url"]), target)
    return _read(target, jobs, run)


def _artifacts(client: FarmClient, run: str) -> Iterator[Mapping[str, Any]]:
    """All of a run, page by page."""
    asked = {"arn": run, "type": "FILE"}
    page = client.list_artifacts(**asked)
    yield from page.get("artifacts", [])
    while token := page.get("nextToken"):
        page = client.list_artifacts(**asked, nextToken=token)
        yield from page.get("artifacts", [])


def _uploaded(client: FarmClient, farm: Farm, kind: str, path: Path, put: Put, say: Say) -> str:
    upload = client.create_upload(projectArn=farm.project, name=path.name, type=kind)["upload"]
    say(f"uploading {path.name}")
    put(str(upload["url"]), path)
    arn = str(upload["arn"])
    state = _awaited(lambda: client.get_upload(arn=arn)["upload"], ("SUCCEEDED", "FAILED"), path.name, say)
    if state["status"] == "FAILED":
        raise _failed(path.name, str(state.get("metadata") or state.get("message") or "the service refuses the file"))
    return arn


def _awaited(ask: Callable[[], Mapping[str, Any]], ends: tuple[str, ...], where: str, say: Say) -> Mapping[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while (state := ask())["status"] not in ends:
        if time.monotonic() > deadline:
            raise _failed(where, f"it is still {state['status']} after {LIMIT_S / 3600:g} hours")
        say(f"{where}: {state['status']}")
        time.sleep(POLL_S)
    return state


def _read(archive: Path, jobs: int, run: str) -> FarmOutputs:
    wanted = [FACTS_BEFORE, FACTS_AFTER, *map(output_name, range(jobs))]
    try:
        with zipfile.ZipFile(archive) as opened:
            by_name = {Path(info.filename).name: info for info in opened.infolist() if info.file_size <= _MAX_BYTES}
            texts = [opened.read(by_name[name]).decode(errors="replace") for name in wanted]
    except (OSError, KeyError, zipfile.BadZipFile) as cause:
        raise _failed(run, f"its outputs are incomplete: {cause}") from cause
    return FarmOutputs(tuple(texts[2:]), (texts[0], texts[1]))


def _put(url: str, path: Path) -> None:
    with path.open("rb") as data:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
        urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers, method="PUT")).close()


def _get(url: str, path: Path) -> None:
    with urllib.request.urlopen(url) as answer, path.open("wb") as target:
        target.write(answer.read())


def _failed(where: str, why: str) -> InputError:
    return InputError("Device Farm has no result.", where, why, "look at the run in the service's console", "E564")
