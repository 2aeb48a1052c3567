"""Seeded damage to every file of a bundle: each case is refused with an InputError, none is accepted, none crashes."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from tests.bundle.bundle_samples import FILES, write_sample

CASES_PER_FILE = 91
Damage = Callable[[Path, random.Random], None]


def _truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def _flip_one_bit(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _flip_many_bits(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for index in rng.sample(range(len(data)), k=min(len(data), rng.randint(2, 64))):
        data[index] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _append(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 32)))


def _insert(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    at = rng.randrange(len(data))
    path.write_bytes(data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:])


def _cut_out(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    at = rng.randrange(len(data))
    path.write_bytes(data[:at] + data[at + rng.randint(1, 16) :])


def _swap_bytes(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    first = rng.randrange(len(data))
    second = rng.choice([index for index in range(len(data)) if data[index] != data[first]])
    data[first], data[second] = data[second], data[first]
    path.write_bytes(data)


def _garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


def _delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def _folder_instead(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _link_instead(path: Path, rng: random.Random) -> None:
    moved = path.parents[2] / f"moved-{rng.randrange(1 << 32)}"
    path.rename(moved)
    path.symlink_to(moved)


DAMAGES: list[Damage] = [
    _truncate,
    _flip_one_bit,
    _flip_one_bit,
    _flip_one_bit,
    _flip_many_bits,
    _append,
    _insert,
    _cut_out,
    _swap_bytes,
    _garbage,
    _delete,
    _folder_instead,
    _link_instead,
]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", [*sorted(FILES), "manifest.json"])
def test_no_damage_is_ever_accepted(tmp_path: Path, name: str) -> None:
    intact = write_sample(tmp_path / "intact")
    path = tmp_path / "damaged" / intact.name
    for seed in range(CASES_PER_FILE):
        rng = random.Random(f"{name} {seed}")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(intact, path)
        damage = DAMAGES[seed % len(DAMAGES)]
        damage(path / name, rng)
        with pytest.raises(InputError) as caught:
            open_bundle(path)
        assert caught.value.code.startswith("E13"), f"{damage.__name__} with seed {seed}: {caught.value}"


def test_two_files_swapped_are_refused(tmp_path: Path) -> None:
    names = sorted(FILES)
    for first, second in pairwise(names):
        path = write_sample(tmp_path / first.replace("/", "-"))
        (path / first).write_bytes(FILES[second])  # type: ignore[arg-type]
        (path / second).write_bytes(FILES[first])  # type: ignore[arg-type]
        with pytest.raises(InputError):
            open_bundle(path)


@pytest.mark.long
def test_every_single_byte_of_the_manifest_matters(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    intact = (path / "manifest.json").read_bytes()
    rng = random.Random(7)
    for index in range(0, len(intact), 3):
        data = bytearray(intact)
        data[index] ^= 1 << rng.randrange(8)
        (path / "manifest.json").write_bytes(data)
        with pytest.raises(InputError):
            open_bundle(path)
    (path / "manifest.json").write_bytes(intact)
    assert open_bundle(path).files_checked


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield path
    for key, child in inner:
        yield from _leaves(child, (*path, key))


def _replace(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replace(value[path[0]], path[1:], new)
    return copy


ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 10**400, 1e308, 0.5, "", "x" * 5000, "../x", "\0", "\ud800", "\u202e"),
    *([], {}, [[[]]], {"": None}, ["x"], "1", "host"),
]


@pytest.mark.long
def test_a_manifest_with_odd_values_and_a_right_digest_never_crashes_the_reader(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    fields = json.loads((path / "manifest.json").read_text())
    places, rng, refused = list(_leaves(fields)), random.Random(11), 0
    for _ in range(600):
        changed = _replace(fields, rng.choice(places), rng.choice(ODD_VALUES))
        unsigned = {**changed, "digest": ""} if isinstance(changed, dict) else changed
        text = json.dumps(unsigned, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        signed = text.replace('"digest": ""', f'"digest": "{digest}"')
        (path / "manifest.json").write_bytes(signed.encode(errors="surrogatepass"))
        try:
            bundle = open_bundle(path)
        except InputError as error:
            refused += 1
            assert error.code.startswith("E13")
        else:
            assert bundle.artifact_path.is_relative_to(path) and bundle.artifact_path.is_file()
    assert refused > 300, "most odd values have no place in the schema"
