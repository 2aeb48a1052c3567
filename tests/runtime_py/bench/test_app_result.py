"""What a bench app wrote is believed only where it agrees with itself and with what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.runtime_py.bench.app_result import app_records
from edgec.runtime_py.bench.record import RunRecord
from tests.devices.apple.app_result import app_result

JOB = {"prompt_tokens": 20, "new_tokens": 4, "repetitions": 5}
Lines = list[dict[str, Any]]


def app_lines() -> Lines:
    return [json.loads(line) for line in app_result("ios:U").splitlines()]


def read(lines: Lines, simulated: bool = False) -> Any:
    return app_records([json.dumps(line) for line in lines], JOB, "ios:U", simulated)


def changed(kind: str, **fields: Any) -> Callable[[Lines], Lines]:
    """The last record of a kind with other fields."""

    def change(lines: Lines) -> Lines:
        index = max(i for i, line in enumerate(lines) if line["kind"] == kind)
        return [line | fields if i == index else line for i, line in enumerate(lines)]

    return change


def of_another_device(lines: Lines) -> Lines:
    return [line | {"comparability": line["comparability"] | {"device": "host"}} for line in lines]


def test_an_app_s_records_are_read_and_a_simulator_s_are_marked() -> None:
    assert len(read(app_lines())) == 10 and isinstance(read(app_lines())[0], RunRecord)
    marked = read(app_lines(), simulated=True)
    assert all(record.simulated and "measured" not in record.obtained for record in marked)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: [], "begin"),
        (lambda lines: lines[1:], "begin"),
        (lambda lines: [lines[0], *lines], "begin"),
        (lambda lines: lines[:-1], "4 repetitions"),
        (changed("repetition", run="another"), "several runs"),
        (changed("repetition", ttft_ms=-50.0), "ttft_ms"),
        (changed("repetition", ttft_ms=5.0), "does not follow"),
        (changed("repetition", decode_tokens_per_s=9e5), "does not follow"),
        (changed("repetition", tokens=3), "3 tokens"),
        (changed("repetition", token_ms=[10.0] * 2 + [1e300]), "token_ms"),
        (changed("load", load_ms=float("inf")), ""),
        (changed("memory", peak_rss_bytes=5), "peak"),
        (changed("run", before={**app_lines()[0]["before"], "temperature_c": 900.0}), "temperature_c"),
        (of_another_device, "device is host"),
    ],
)
def test_what_cannot_be_a_run_is_refused(change: Callable[[Lines], Lines], why: str) -> None:
    with pytest.raises(InputError, match="E558") as caught:
        read(change(app_lines()))
    assert why in caught.value.why and caught.value.where == "ios:U"


def test_too_many_lines_and_deep_ones_are_refused() -> None:
    for said in (["{}"] * 20_001, ["[" * 100_000]):
        with pytest.raises(InputError, match="E558"):
            app_records(said, JOB, "ios:U", simulated=False)


def test_texts_of_a_device_are_plain_in_its_records() -> None:
    odd = {**app_lines()[0]["before"], "product": "\x1b[31m[/nope]\u202e\n"}
    head = read(changed("run", before=odd)(app_lines()))[0]
    assert head.before.product == "[31m[/nope]"
