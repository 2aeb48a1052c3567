"""One bundle on several devices: phones at the same time, devices on this machine one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.devices.transport import Conditions, Say, Transport, connect, parse_address
from edgec.errors import EdgecError
from edgec.runtime_py.bench.bench import BenchPlan, BenchResult, bench_on

HERE = ("host", "qemu")


@dataclass(frozen=True)
class Outcome:
    """The outcome on one device: a result, or the error that ended it."""

    device: str
    result: BenchResult | None = None
    error: EdgecError | None = None


def bench_devices(
    bundle: Path | str,
    devices: Sequence[str],
    *,
    conditions: Conditions | None = None,
    out: Path | None = None,
    say: Say | None = None,
    **plan: Any,
) -> tuple[Outcome, ...]:
    """Measure a bundle on each device; one that fails does not stop the others.

    Args:
        bundle: the bundle folder, or its address on the hub.
        devices: addresses, see ``edgec.bench``.
        conditions: heat, silence and what stays on a phone.
        out: as for ``bench``; with several devices each one's name is added to it.
        say: told what is being measured.
        plan: the fields of ``BenchPlan``.

    Returns:
        The outcomes in the order of the devices.

    Raises:
        InputError: the bundle or an address is at fault.
    """
    opened, asked = open_bundle(bundle_folder(bundle)), BenchPlan(**plan)
    kinds = {device: parse_address(device).kind for device in devices}
    paths = {device: _path(out, device, len(kinds) > 1) for device in kinds}
    told = say or (lambda _: None)
    phones = {device: _connected(device, conditions, told) for device in kinds if kinds[device] not in HERE}
    outcomes = _in_parallel(phones, partial(_bench, bundle=opened, plan=asked, say=told), paths)
    for device in (device for device in kinds if kinds[device] in HERE):
        outcomes[device] = _bench(device, _connected(device, conditions, told), paths[device], opened, asked, told)
    return tuple(outcomes[device] for device in kinds)


def _connected(device: str, conditions: Conditions | None, say: Say) -> Transport | EdgecError:
    try:
        return connect(device, conditions, say)
    except EdgecError as error:
        return error


def _in_parallel(
    phones: Mapping[str, Transport | EdgecError], measure: Any, paths: Mapping[str, Path | None]
) -> dict[str, Outcome]:
    """Measure each phone in its own thread; an interruption reaches this thread only, which then closes all phones."""
    with ThreadPoolExecutor(max(1, len(phones))) as pool:
        try:
            futures: dict[str, Future[Outcome]] = {
                device: pool.submit(measure, device, phone, paths[device]) for device, phone in phones.items()
            }
            return {device: future.result() for device, future in futures.items()}
        except BaseException:
            for phone in phones.values():
                if not isinstance(phone, EdgecError):
                    phone.close()
            raise


def _bench(
    device: str, phone: Transport | EdgecError, out: Path | None, bundle: Bundle, plan: BenchPlan, say: Say
) -> Outcome:
    if isinstance(phone, EdgecError):
        return Outcome(device, error=phone)
    try:
        with closing(phone):
            return Outcome(device, bench_on(phone, bundle, plan, out, say))
    except EdgecError as error:
        return Outcome(device, error=error)


def _path(out: Path | None, device: str, several: bool) -> Path | None:
    if out is None or not several:
        return out
    return out.with_name(f"{out.stem}-{re.sub(r'[^A-Za-z0-9.]+', '-', device)}{out.suffix}")
