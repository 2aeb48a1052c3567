"""A stand-in for the Hugging Face hub: the part of its HTTP API that downloads and pushes use, with faults to plant.

Files above a limit lie in a storage of another origin, as on the hub, to which the repository's address redirects.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "secret" * 5
OWNER = "max"
LARGE = 50_000
"""Files of more bytes lie in the storage."""


@dataclass
class Repo:
    """A repository: its commits, each with all files, and its branches."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    summaries: list[str] = field(default_factory=list)

    def commit(self, files: Mapping[str, bytes], branch: str = "main") -> str:
        """Make a commit with exactly these files."""
        text = json.dumps([len(self.commits), branch, sorted(files)])
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = dict(files)
        self.branches[branch] = sha
        return sha

    def at(self, revision: str) -> str | None:
        """The commit of a revision."""
        return self.branches.get(revision, revision if revision in self.commits else None)


@dataclass
class Fault:
    """What goes wrong with requests whose ``METHOD path`` a pattern finds, for the first ``times`` of them.

    Attributes:
        status: answer with this status alone.
        cut: end the connection after so many bytes of the body.
        hold_s: wait so long before that.
        body: answer with this instead.
        headers: of the answer.
        stated: claim this length for the body.
        ranges: False: answer with the whole file where a part is asked for.
    """

    pattern: str
    times: int = 1
    status: int | None = None
    cut: int | None = None
    hold_s: float = 0.0
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    stated: int | None = None
    ranges: bool = True


@dataclass(frozen=True)
class Asked:
    """A request that came: the server's ``origin`` is ``hub`` or ``storage``."""

    origin: str
    what: str
    range: str | None
    authorised: bool


@dataclass
class HubServer:
    """The running stand-in; ``endpoint`` is what HF_ENDPOINT says."""

    endpoint: str = ""
    storage: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    listed: list[str] | None = None
    writers: tuple[str, ...] = (OWNER,)
    readme_errors: list[str] = field(default_factory=list)

    def fault(self, what: str) -> Fault | None:
        """The fault that hits a request, which is then used up by one."""
        for fault in self.faults:
            if fault.times and re.search(fault.pattern, what):
                fault.times -= 1
                return fault
        return None

    def requests(self, pattern: str) -> list[Asked]:
        """The requests that came and that a pattern finds."""
        return [asked for asked in self.asked if re.search(pattern, asked.what)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer
    origin: str

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        what = f"{self.command} {path}"
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        self.authorised = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.hub.asked.append(Asked(self.origin, what, self.headers.get("Range"), self.authorised))
        self.planted = self.hub.fault(what) or Fault("", 0)
        if self.planted.status is not None:
            self._send(self.planted.status, self.planted.body or b"", self.planted.headers)
        elif self.planted.body is not None:
            self._send(200, self.planted.body, self.planted.headers)
        else:
            self._route(path)

    do_GET = do_HEAD = do_POST = do_PUT = _answer

    def _route(self, path: str) -> None:
        for pattern, method in _ROUTES[self.origin]:
            if found := re.fullmatch(pattern, f"{self.command} {path}"):
                getattr(self, method)(**found.groupdict())
                return
        self._send(404)

    def _send(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        stated = len(body) if self.planted.stated is None else self.planted.stated
        for name, value in {"Content-Length": str(stated), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.planted.cut
        self.wfile.write(body if cut is None else body[:cut])
        sleep(self.planted.hold_s)
        if cut is not None or stated != len(body):
            self.close_connection = True

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, text: str) -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": text})

    def _repo(self, repo: str) -> Repo | None:
        """The repository, if this caller may see it; else it is refused."""
        known = self.hub.repos.get(repo)
        if known is None or (known.private and not self.authorised):
            self._refuse(401 if not self.authorised else 404, "RepoNotFound", "Repository not found")
            return None
        return known

    def _at(self, repo: str, revision: str | None) -> tuple[Repo, str] | None:
        known = self._repo(repo)
        commit = known.at(revision or "main") if known else None
        if known is not None and commit is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return (known, commit) if known is not None and commit is not None else None

    def _may_write(self, repo: str) -> bool:
        if not self.authorised:
            self._refuse(401, "", "Invalid username or password.")
        elif repo.partition("/")[0] not in self.hub.writers:
            self._refuse(403, "", "You don't have the rights to write here")
        else:
            return True
        return False

    def info(self, repo: str, revision: str | None = None) -> None:
        """What a repository is at a revision."""
        if found := self._at(repo, revision):
            known, commit = found
            names = [*known.commits[commit], *(self.hub.listed or ())]
            siblings = [{"rfilename": name} for name in names]
            self._json({"id": repo, "sha": commit, "private": known.private, "siblings": siblings})

    def resolve(self, repo: str, revision: str, name: str) -> None:
        """A file, or where it lies."""
        if (found := self._at(repo, revision)) is None:
            return
        known, commit = found
        content = known.commits[commit].get(name)
        if content is None:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        sha = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": commit, "ETag": f'"{sha}"'}
        if len(content) > LARGE:
            self.hub.objects[sha] = content
            place = f"{self.hub.storage}/objects/{sha}?X-Signature=of-the-storage"
            self._send(302, b"", headers | {"Location": place, "X-Linked-Size": str(len(content))})
            return
        self._content(content, headers)

    def stored(self, sha: str) -> None:
        """A file of the storage."""
        self._content(self.hub.objects[sha], {})

    def _content(self, content: bytes, headers: Mapping[str, str]) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked is None or not self.planted.ranges:
            self._send(200, content, headers)
            return
        first = int(asked[1])
        if first >= len(content):
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        place = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._send(206, content[first:], {**headers, "Content-Range": place})

    def create(self) -> None:
        """Create a repository."""
        asked = json.loads(self.body)
        repo = f"{asked['organization']}/{asked['name']}"
        if repo in self.hub.repos:
            self._send(409 if self.authorised else 401)
        elif self._may_write(repo):
            made = self.hub.repos[repo] = Repo(private=asked.get("visibility") == "private")
            made.commit({".gitattributes": b"*.bin filter=lfs\n"})
            self._json({"url": f"{self.hub.endpoint}/{repo}"})

    def branch(self, repo: str, branch: str) -> None:
        """Make a branch, at the main one's commit."""
        known = self._repo(repo)
        if known is not None and self._may_write(repo):
            known.branches[branch] = known.branches["main"]
            self._json({})

    def card(self) -> None:
        """Look at a model card's header."""
        errors = [{"message": text} for text in self.hub.readme_errors]
        self._json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def preupload(self, repo: str, revision: str) -> None:
        """Say which files go to the storage."""
        if self._at(repo, revision) is None or not self._may_write(repo):
            return
        files = json.loads(self.body)["files"]
        modes = ["lfs" if file["size"] > LARGE else "regular" for file in files]
        answers = [
            {"path": file["path"], "uploadMode": mode, "shouldIgnore": file["path"].endswith(".ignored")}
            for file, mode in zip(files, modes, strict=True)
        ]
        self._json({"files": answers})

    def batch(self, repo: str) -> None:
        """Say which large files are still to be sent, and where to."""
        if not self._may_write(repo):
            return
        answers: list[dict[str, Any]] = []
        for one in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.storage}/objects/{one['oid']}"}}
            answers.append({**one, **({} if one["oid"] in self.hub.objects else {"actions": upload})})
        self._json({"transfer": "basic", "objects": answers})

    def store(self, sha: str) -> None:
        """Take a large file."""
        right = hashlib.sha256(self.body).hexdigest() == sha
        if right:
            self.hub.objects[sha] = self.body
        self._send(200 if right else 400)

    def commit(self, repo: str, revision: str) -> None:
        """Make a commit of lines that each name a change."""
        if (found := self._at(repo, revision)) is None or not self._may_write(repo):
            return
        known, parent = found
        header, *changes = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit", parent) != parent:
            self._refuse(412, "", "The repository changed since the parent commit")
            return
        files = dict(known.commits[parent])
        for change in changes:
            value = change["value"]
            if change["key"] == "deletedFile":
                del files[value["path"]]
            elif change["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                files[value["path"]] = self.hub.objects[value["oid"]]
        sha = known.commit(files, revision)
        known.summaries.append(header["value"]["summary"])
        self._json({"commitUrl": f"{self.hub.endpoint}/{repo}/commit/{sha}", "commitOid": sha})


_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
_ROUTES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "hub": (
        (rf"GET /api/models/{_REPO}", "info"),
        (rf"GET /api/models/{_REPO}/revision/(?P<revision>.+)", "info"),
        (rf"(?:GET|HEAD) /{_REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", "resolve"),
        (r"POST /api/repos/create", "create"),
        (r"POST /api/validate-yaml", "card"),
        (rf"POST /api/models/{_REPO}/branch/(?P<branch>.+)", "branch"),
        (rf"POST /api/models/{_REPO}/preupload/(?P<revision>.+)", "preupload"),
        (rf"POST /{_REPO}\.git/info/lfs/objects/batch", "batch"),
        (rf"POST /api/models/{_REPO}/commit/(?P<revision>.+)", "commit"),
    ),
    "storage": ((r"GET /objects/(?P<sha>\w+)", "stored"), (r"PUT /objects/(?P<sha>\w+)", "store")),
}


class _Quiet(ThreadingHTTPServer):
    """A server that says nothing where a client went away."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A hub and its storage, each on a port of its own, until the block ends."""
    hub = HubServer()
    servers = [
        _Quiet(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub, "origin": origin}))
        for origin in ("hub", "storage")
    ]
    hub.endpoint, hub.storage = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    for server in servers:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def use_hub(hub: HubServer, monkeypatch: Any, token: str | None = None) -> None:
    """Have the hub's library talk to a stand-in, and wait for nothing between its attempts."""
    import time
    from types import SimpleNamespace

    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    from edgec.bundle.hub import download

    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    at_once = SimpleNamespace(sleep=lambda _: None, time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr(_http, "time", at_once)
    monkeypatch.setattr(download, "sleep", lambda _: None)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent/token")
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)


def files_of(folder: Any) -> dict[str, bytes]:
    """The files of a bundle by their paths, as they lie in a repository."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
