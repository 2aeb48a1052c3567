"""The server's typed errors, and each as OpenAI's clients expect it: a status and an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from edgec.errors import EdgecError, InputError, ToolError

_MOST = 300
_TYPE: Final = "invalid_request_error"
# The status of each code; others are 400 where the request is at fault.
_STATUS: Final = {
    "E157": (500, "server_error"),
    "E623": (422, "malformed_tool_call"),
    "E634": (404, _TYPE),
    "E635": (413, _TYPE),
    "E636": (401, "authentication_error"),
    "E637": (504, "timeout"),
    "E638": (429, "rate_limit_error"),
    "E640": (403, _TYPE),
    "E896": (503, "server_error"),
}
_UNKNOWN: Final = {"message": "The server failed; its log says why.", "type": "server_error", "param": None}


@dataclass
class RequestError(InputError):
    """A request at fault; ``param`` names the parameter."""

    param: str = ""


def malformed_body(why: str, param: str = "") -> RequestError:
    """A body that is not what its path takes."""
    what = f"The parameter {param!r} cannot be used." if param else "The body is not a request."
    return RequestError(what, param or "body", why[:_MOST], "see docs/serve.md for what is taken", "E632", param)


def unsupported(param: str, why: str = "") -> RequestError:
    """A parameter that the server does not have."""
    what = f"The parameter {param!r:.80} is not supported."
    return RequestError(
        what, param[:80], why[:_MOST], "leave it out (docs/serve.md lists what is taken)", "E633", param[:80]
    )


def no_such_model(name: str, known: list[str]) -> RequestError:
    """A model that is not served."""
    what = f"There is no model {name!r:.80}."
    return RequestError(what, "model", f"served are {', '.join(known)}"[:_MOST], "name one of them", "E634", "model")


def no_such_response(number: str) -> RequestError:
    """A response that is not kept."""
    what, why = f"There is no response {number!r:.80}.", "it was not stored, or was forgotten for newer ones"
    return RequestError(what, "previous_response_id", why, "send the whole input", "E634", "previous_response_id")


def wrong_kind(name: str, path: str) -> RequestError:
    """A model that another path serves."""
    what, fix = f"The model {name!r:.80} does not answer here.", f"use {path}"
    return RequestError(what, "model", "it is another kind of model", fix, "E644", "model")


def no_such_path(path: str) -> RequestError:
    """A path or a method that the server does not have."""
    fix = "use /v1/models, /v1/chat/completions, or another path of docs/serve.md"
    return RequestError("There is nothing at this address.", path[:80], "", fix, "E634")


def too_large(most: int, option: str = "--max-body-mb") -> RequestError:
    """A body beyond the limit that an option of the command sets."""
    fix = f"send less, or raise {option}"
    return RequestError("The body is too large.", "body", f"at most {most:,} bytes are taken", fix, "E635")


def wrong_key() -> RequestError:
    """A request without the server's key."""
    fix = "send the header Authorization: Bearer KEY"
    return RequestError("The API key is missing or wrong.", "Authorization", "", fix, "E636")


def out_of_time(seconds: float) -> RequestError:
    """An answer that took too long."""
    fix = "ask for fewer tokens, or raise --answer-seconds"
    return RequestError("The answer took too long.", "server", f"the limit is {seconds:g} s", fix, "E637")


def slow_to_prepare(seconds: float) -> RequestError:
    """A request whose schema, tools or text take too long before anything is computed."""
    fix = "use a smaller schema, or fewer tools"
    return RequestError("Preparing the answer took too long.", "server", f"the limit is {seconds:g} s", fix, "E637")


def too_many(most: int) -> RequestError:
    """A request for which there is no place to wait."""
    fix = "try again later"
    return RequestError("Too many requests wait.", "server", f"at most {most} can", fix, "E638")


def too_many_uploads(most: int) -> RequestError:
    """A large body, while as many are in memory as may be."""
    why = f"at most {most} requests with images or sounds are in memory at once"
    return RequestError("Too many requests wait.", "server", why, "try again later", "E638")


def stopping() -> RequestError:
    """An answer that is not finished when the server stops."""
    fix = "send the request again to the server that takes its place"
    return RequestError("The server stops before the answer is whole.", "server", "", fix, "E896")


def unusable_media(param: str, why: str) -> RequestError:
    """An image or a sound that did not come with the request as it has to."""
    fix = "send the image as a data: URL, or the sound as WAV in base64 (docs/serve.md)"
    return RequestError("An image or a sound of the request cannot be used.", param, why[:_MOST], fix, "E895", param)


def foreign_host(host: str) -> RequestError:
    """A request that a web page may have sent under a name of its own for this machine."""
    fix = "use http://127.0.0.1 or http://localhost, or serve with --host"
    return RequestError("The request is for another host.", host[:80], "only this machine is served", fix, "E640")


def as_body(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the object of an error."""
    if not isinstance(error, EdgecError):
        return 500, {"error": {**_UNKNOWN, "code": None}}
    status, kind = _STATUS.get(error.code, (400, _TYPE))
    if isinstance(error, ToolError):
        status, kind = 501, "server_error"
    # Where files lie on this machine is nothing for those who ask from another.
    told = ((name, text) for name, text in error.details() if text and not (name == "where" and text.startswith("/")))
    parts = [error.what, *(f"{name}: {text}" for name, text in told)]
    param = getattr(error, "param", "") or (error.where if error.where.isidentifier() else None)
    held = {"message": "\n".join(parts), "type": kind, "param": param, "code": error.code}
    if text := getattr(error, "text", ""):
        held["text"] = text
    return status, {"error": held}
