"""AWS Device Farm: submit a prepared run, wait for it, fetch its outputs, with boto3's client or a stand-in.

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
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from edgec.devices.answers import asked, not_installed, plain
from edgec.devices.cloud.farm_package import FACTS_AFTER, FACTS_BEFORE, FarmPackage, output_name
from edgec.devices.transport import Say
from edgec.errors import InputError

REGION = "us-west-2"
"""The only region that Device Farm has."""

POLL_S = 10.0
LIMIT_S = 2 * 3600.0
_OUTPUTS = "Customer Artifacts"
_MAX_BYTES = 1 << 26
_MAX_ARCHIVE_BYTES = 1 << 30
_MAX_PAGES = 100
_ANSWER_S = 60.0
_PIECE = 1 << 20


class FarmClient(Protocol):
    """The part of boto3's ``devicefarm`` client that edgec uses."""

    def create_upload(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def get_upload(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def schedule_run(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def get_run(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102
    def list_artifacts(self, **fields: Any) -> Mapping[str, Any]: ...  # noqa: D102


@dataclass(frozen=True)
class Farm:
    """Where a run goes: the ARNs of the project and the device pool, and any app (the service requires one)."""

    project: str
    pool: str
    app: Path


@dataclass(frozen=True)
class FarmOutputs:
    """The outputs of a run: the runner's output for each job, and the phone's facts before and after."""

    jobs: tuple[str, ...]
    facts: tuple[str, str]


Put = Callable[[str, Path], None]
Get = Callable[[str, Path], None]


def farm_client() -> FarmClient:
    """The ``devicefarm`` client of boto3, for the account that boto3 finds.

    Raises:
        ToolError: E567, boto3 is not installed.
        InputError: E564, boto3 finds no usable configuration.
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
    fields = {"projectArn": farm.project, "appArn": arns["ANDROID_APP"], "devicePoolArn": farm.pool, "test": test}
    return asked(
        lambda: str(client.schedule_run(name="edgec bench", **fields)["run"]["arn"]), partial(_failed, farm.project)
    )


def collect(
    client: FarmClient, run: str, jobs: int, folder: Path, get: Get | None = None, say: Say = lambda text: None
) -> FarmOutputs:
    """Wait for a run and fetch what its jobs wrote.

    Args:
        client: of the service.
        run: the run's ARN.
        jobs: how many jobs it has.
        folder: receives the archive of outputs.
        get: downloads a URL into a file.
        say: called with the run's state.

    Raises:
        InputError: E564, the run did not end well, or its outputs are missing.
    """
    state = _awaited(lambda: client.get_run(arn=run)["run"], ("COMPLETED",), run, say)
    failed = partial(_failed, run)
    urls = asked(lambda: [item["url"] for item in _artifacts(client, run) if item.get("name") == _OUTPUTS], failed)
    if not urls:
        raise failed(f"it ended as {state.get('result')}: {state.get('message') or 'there are no outputs'}")
    target = folder / "outputs.zip"
    asked(lambda: (get or _get)(str(urls[0]), target), failed)
    return _read(target, jobs, run)


def _artifacts(client: FarmClient, run: str) -> Iterator[Mapping[str, Any]]:
    """All artifacts of a run, page by page."""
    wanted = {"arn": run, "type": "FILE"}
    page = client.list_artifacts(**wanted)
    yield from page.get("artifacts", [])
    for _ in range(_MAX_PAGES):
        if not (token := page.get("nextToken")):
            return
        page = client.list_artifacts(**wanted, nextToken=token)
        yield from page.get("artifacts", [])


def _uploaded(client: FarmClient, farm: Farm, kind: str, path: Path, put: Put, say: Say) -> str:
    failed = partial(_failed, path.name)
    upload = asked(lambda: client.create_upload(projectArn=farm.project, name=path.name, type=kind)["upload"], failed)
    say(f"uploading {path.name}")
    asked(lambda: put(str(upload["url"]), path), failed)
    arn = asked(lambda: str(upload["arn"]), failed)
    state = _awaited(lambda: client.get_upload(arn=arn)["upload"], ("SUCCEEDED", "FAILED"), path.name, say)
    if state["status"] == "FAILED":
        raise failed(str(state.get("metadata") or state.get("message") or "the service refuses the file"))
    return arn


def _awaited(ask: Callable[[], Mapping[str, Any]], ends: tuple[str, ...], where: str, say: Say) -> Mapping[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while True:
        state, status = asked(lambda: _status(ask()), partial(_failed, where))
        if status in ends:
            return state
        if time.monotonic() > deadline:
            raise _failed(where, f"it is still {status} after {LIMIT_S / 3600:g} hours")
        say(f"{where}: {status}")
        time.sleep(POLL_S)


def _status(state: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    return dict(state), plain(state["status"])


def _read(archive: Path, jobs: int, run: str) -> FarmOutputs:
    wanted = [FACTS_BEFORE, FACTS_AFTER, *map(output_name, range(jobs))]
    try:
        with zipfile.ZipFile(archive) as opened:
            by_name = {Path(info.filename).name: info for info in opened.infolist() if info.file_size <= _MAX_BYTES}
            texts = [opened.read(by_name[name]).decode(errors="replace") for name in wanted]
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as cause:
        raise _failed(run, f"its outputs are incomplete: {cause}") from cause
    return FarmOutputs(tuple(texts[2:]), (texts[0], texts[1]))


def _put(url: str, path: Path) -> None:
    _check_https(url)
    with path.open("rb") as data:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
        urllib.request.urlopen(
            urllib.request.Request(url, data=data, headers=headers, method="PUT"), timeout=LIMIT_S
        ).close()


def _get(url: str, path: Path) -> None:
    _check_https(url)
    deadline, left = time.monotonic() + LIMIT_S, _MAX_ARCHIVE_BYTES
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer, path.open("wb") as target:
        while data := answer.read1(_PIECE):
            left -= len(data)
            if left < 0 or time.monotonic() > deadline:
                raise OSError(f"more than {_MAX_ARCHIVE_BYTES:,} bytes, or longer than {LIMIT_S / 3600:g} hours")
            target.write(data)


def _check_https(url: str) -> None:
    """Refuse other schemes: the service's URLs are https, and others could reach files of this machine."""
    if not url.startswith("https://"):
        raise OSError(f"a URL that is not one of the service's: {url}")


def _failed(where: str, why: str) -> InputError:
    return InputError(
        "Device Farm has no result.", where, plain(why), "look at the run in the service's console", "E564"
    )
