"""A folder on the phone that belongs to one run, filled by checksummed and resumable transfers, removed at the end.

Its name carries the process that made it. A folder whose process is gone (a crash, a pulled cable), or that was kept on
purpose, is taken over by the next run: complete files in it are not sent again, partial ones are continued.
"""

from __future__ import annotations

import hashlib
import io
import re
import secrets
import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from edgec.bundle.owner import OWNER, own_mark, owned_by_running
from edgec.devices.adb.faults import differs, failed, no_space
from edgec.devices.adb.link import ANSWER_BYTES, AdbLink, AnswerLimits, ShellOutput, retried
from edgec.devices.adb.sync import receive, send
from edgec.devices.answers import number, printable
from edgec.devices.transport import Say
from edgec.errors import EdgecError

BASE = "/data/local/tmp"
CHUNK = 32 << 20
ATTEMPTS = 4
FILES = AnswerLimits(600.0)
"""Limits of an answer for which the phone reads or copies whole files."""
MOST_LEFT = 32
"""How many folders of earlier runs one run takes over or removes."""
_KEPT = "kept"
_NAME = re.compile(rf"edgec-(?P<host>[0-9a-f]{{8}})-{OWNER}-[0-9a-f]{{8}}|edgec-kept-[0-9a-f]{{8}}")


class Workspace:
    """The folder of this run on the phone."""

    def __init__(self, link: AdbLink, say: Say) -> None:
        """Choose the folder's name; nothing is made on the phone yet."""
        self.link, self._say = link, say
        name = "-".join(("edgec", _host(), *own_mark(), secrets.token_hex(4)))
        self.path = f"{BASE}/{name}"

    def make(self) -> None:
        """Take over a folder that an earlier run left, or make a new one.

        Raises:
            EdgecError: E541 to E544, E547, E566.
        """
        retried(self.link, ATTEMPTS, self._make)

    def shell(
        self, script: str, limits: AnswerLimits = FILES, progress: Callable[[bytes], bool] = lambda data: False
    ) -> ShellOutput:
        """Run a script inside the folder."""
        return self.link.shell(f"cd {shlex.quote(self.path)} && {{ {script}\n}}", limits, progress)

    def fill(self, files: Mapping[str, Path]) -> None:
        """Put files into the folder under their names; files already there with the same sha256 stay.

        Raises:
            EdgecError: E541 to E545, E547, E549, E566.
        """
        present = self._hashes([*files, *map(_partial, files)])
        wanted = {name: _sha256(path) for name, path in files.items()}
        missing = [name for name in files if present.get(name) != wanted[name]]
        # Remove an earlier run's files that are not needed or have other content; keep its packed weights.
        kept = "|".join(map(shlex.quote, [*[*(set(files) - set(missing)), *map(_partial, missing)], "packed"]))
        self.shell(f'for f in *; do case "$f" in {kept}) ;; *) rm -rf "$f" ;; esac; done')
        self._check_space([self._left(name, files[name], _partial(name) in present) for name in missing])
        sizes = {name: files[name].stat().st_size for name in missing}
        done = 0
        for name in missing:
            self._put(name, files[name], wanted[name], partial(self._report, done, sum(sizes.values())))
            done += sizes[name]

    def write(self, name: str, text: str) -> None:
        """Write a small text file into the folder."""
        data = text.encode()
        retried(
            self.link, ATTEMPTS, lambda: send(self.link, io.BytesIO(data), len(data), self._at(name), lambda _: None)
        )

    def read(self, name: str, most_bytes: int = ANSWER_BYTES) -> str:
        """The text of a small file in the folder, without terminal escapes, checked against its sha256.

        Raises:
            EdgecError: E541 to E544, E547, E549, E575.
        """
        data = bytearray()

        def pull() -> None:
            target = io.BytesIO()
            receive(self.link, self._at(name), target, most_bytes)
            data[:] = target.getvalue()

        for _ in range(2):
            retried(self.link, ATTEMPTS, pull)
            if self._hashes([name]).get(name) == hashlib.sha256(data).hexdigest():
                return printable(bytes(data).decode(errors="replace"))
        raise differs(self.link.where, name)

    def remove(self, link: AdbLink, keep: bool = False) -> None:
        """Stop what still runs in the folder and remove it, waiting for a lost phone to come back.

        Where it does not come back, the folder is left for the next run to take over.

        Args:
            link: to the phone; the folder's own may have been stopped.
            keep: rename the folder for the next run instead of removing it.
        """
        quoted, kept = shlex.quote(self.path), shlex.quote(f"{BASE}/edgec-{_KEPT}-{secrets.token_hex(4)}")
        # A process just killed may still close its files, and a broken push may recreate its folder: look again.
        removed = f"for i in 1 2 3 4 5; do rm -rf {quoted}; sleep 0.1; [ -e {quoted} ] || break; done"
        script = _ended(self.path) + (f"mv {quoted} {kept}" if keep else removed)
        with suppress(EdgecError):
            retried(link, 2, lambda: _quietly(link, script))

    def _make(self) -> None:
        for name in _abandoned(self.link):
            left = f"{BASE}/{name}"
            if self.link.shell(f"{_ended(left)}mv {shlex.quote(left)} {shlex.quote(self.path)}").status == 0:
                break
        made = self.link.shell(f"mkdir -p {shlex.quote(self.path)}")
        if made.status != 0:
            raise failed(self.link.where, made.status, made.stderr, f"Making a folder in {BASE}")
        for name in _abandoned(self.link):
            left = f"{BASE}/{name}"
            self.link.shell(f"{_ended(left)}rm -rf {shlex.quote(left)}")

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _hashes(self, names: list[str]) -> dict[str, str]:
        """The sha256 of each of these files that exists, by name."""
        listed = " ".join(map(shlex.quote, names))
        said = self.shell(f'for f in {listed}; do [ -f "$f" ] && sha256sum "$f"; done; true').stdout
        lines = [line.split(maxsplit=1) for line in said.splitlines()]
        return {line[1].strip(): line[0] for line in lines if len(line) == 2}

    def _left(self, name: str, path: Path, begun: bool) -> int:
        """How many bytes of a file are still to be sent."""
        return path.stat().st_size - (self._verified_start(name, path) if begun else 0)

    def _check_space(self, left: Sequence[int]) -> None:
        """Refuse to send more than the phone has room for: the files, and the chunk that is not appended yet."""
        needed = sum(left) + min(CHUNK, max(left, default=0))
        words = self.shell("df -k . | tail -n 1").stdout.split()
        free_kib = number(words[3], 0, 1 << 40) if len(words) > 3 else None
        if free_kib is not None and 1024 * int(free_kib) < needed:
            raise no_space(self.link.where, needed, 1024 * int(free_kib))

    def _put(self, name: str, path: Path, sha256: str, report: Callable[[int], None]) -> None:
        for _ in range(2):
            retried(self.link, ATTEMPTS, lambda: self._send_rest(name, path, report))
            if self._hashes([_partial(name)]).get(_partial(name)) == sha256:
                retried(self.link, ATTEMPTS, lambda: self._put_in_place(name))
                return
            self.shell(f"rm -f {shlex.quote(_partial(name))}")
        raise differs(self.link.where, name)

    def _put_in_place(self, name: str) -> None:
        whole, final = shlex.quote(_partial(name)), shlex.quote(name)
        # Where the phone was lost after the move, it is done already.
        done = self.shell(f"{{ [ ! -e {whole} ] || mv {whole} {final}; }} && chmod 755 {final}")
        if done.status != 0:
            raise failed(self.link.where, done.status, done.stderr, f"Putting {name} in place")

    def _send_rest(self, name: str, path: Path, report: Callable[[int], None]) -> None:
        """Append to the partial file on the phone, chunk by chunk, what it lacks."""
        start, size = self._verified_start(name, path), path.stat().st_size
        whole, chunk = shlex.quote(_partial(name)), "chunk"
        with path.open("rb") as source:
            source.seek(start)
            sent = start
            while sent < size or size == 0:
                length = min(CHUNK, size - sent)
                send(self.link, source, length, self._at(chunk), _counted(report, sent))
                done = self.shell(f"cat {chunk} >> {whole} && rm {chunk}")
                if done.status != 0:
                    raise self._unwritten(done, name, size)
                sent += length
                if size == 0:
                    return

    def _unwritten(self, done: ShellOutput, name: str, size: int) -> EdgecError:
        if "No space" in done.stderr:
            return no_space(self.link.where, size, None)
        return failed(self.link.where, done.status, done.stderr, f"Writing {name}")

    def _verified_start(self, name: str, path: Path) -> int:
        """How many bytes of the partial file are correct; a wrong file is removed."""
        there = _partial(name)
        hashed = self._hashes([there]).get(there)
        if hashed is None:
            return 0
        whole = path.stat().st_size
        size = int(number(self.shell(f"wc -c < {shlex.quote(there)}").stdout.strip(), 0, whole) or 0)
        if _sha256(path, size) == hashed:
            return size
        self.shell(f"rm -f {shlex.quote(there)}")
        return 0

    def _report(self, before: int, whole: int, sent: int) -> None:
        self._say(f"pushing to {self.link.where}: {(before + sent) / 1e6:,.0f} of {whole / 1e6:,.0f} MB")


def _counted(report: Callable[[int], None], start: int) -> Callable[[int], None]:
    sent = start

    def count(more: int) -> None:
        nonlocal sent
        sent += more
        report(sent)

    return count


def _partial(name: str) -> str:
    return f"{name}.partial"


def _sha256(path: Path, size: int | None = None) -> str:
    digest, left = hashlib.sha256(), path.stat().st_size if size is None else size
    with path.open("rb") as file:
        while left and (data := file.read(min(1 << 20, left))):
            digest.update(data)
            left -= len(data)
    return digest.hexdigest()


def _ended(folder: str) -> str:
    """A script that ends a folder's runner, if its process id still belongs to a process that works in the folder."""
    quoted = shlex.quote(folder)
    return f'p=$(cat {quoted}/pid 2>/dev/null); [ -n "$p" ] && [ /proc/$p/cwd -ef {quoted} ] && kill -9 $p; '


def _quietly(link: AdbLink, script: str) -> None:
    link.shell(script)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _abandoned(link: AdbLink) -> list[str]:
    """Names of folders that were kept, or whose process on this computer is gone; ``MOST_LEFT`` at most."""
    names = link.shell(f"cd {BASE} && ls -d edgec-* 2>/dev/null; true").stdout.split()
    return [name for name in names if (match := _NAME.fullmatch(name)) and _free(match)][:MOST_LEFT]


def _free(name: re.Match[str]) -> bool:
    return name["host"] is None or (name["host"] == _host() and not owned_by_running(name))
