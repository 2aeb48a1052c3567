"""The text of /metrics, in Prometheus' exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from edgec.runtime_py.serve.hosted import Hosted
from edgec.runtime_py.serve.hosting import Served
from edgec.runtime_py.serve.measures import TimeHistogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
MetricSample = tuple[Labels, float]


def metrics_text(hosted: Sequence[Served], requests: Mapping[tuple[str, int], int]) -> str:
    """All that is counted and measured.

    Args:
        hosted: the bundles that are served.
        requests: how many were answered, by path and status.
    """
    writers = [one for one in hosted if isinstance(one, Hosted)]
    return "".join(
        (
            _family(
                *("requests_total", "counter", "Requests that were answered."),
                (({"path": path, "status": str(status)}, count) for (path, status), count in requests.items()),
            ),
            _family(
                "waiting", "gauge", "Requests that are computed or wait.", (_of(one, one.waiting) for one in hosted)
            ),
            _family("sessions", "gauge", "Answers written at once.", (_of(one, one.slots.sessions) for one in writers)),
            _family(
                *("kv_cache_tokens", "gauge", "Positions that the sessions' KV caches hold."),
                (_of(one, one.slots.held_tokens) for one in writers),
            ),
            _family(
                *("kv_cache_capacity_tokens", "gauge", "Positions that they have room for."),
                (_of(one, one.slots.sessions * one.model.session.limits.context) for one in writers),
            ),
            _family("tokens_total", "counter", "Tokens, by kind.", _counted(writers, "tokens", "kind")),
            _family("answers_total", "counter", "Answers, by how they ended.", _counted(writers, "finished", "reason")),
            *_times(writers),
        )
    )


def _family(name: str, kind: str, what: str, samples: Iterable[MetricSample]) -> str:
    lines = [f"# HELP edgec_{name} {what}", f"# TYPE edgec_{name} {kind}"]
    lines += [f"edgec_{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _of(one: Served, value: float) -> MetricSample:
    return {"model": one.name}, value


def _counted(writers: Sequence[Hosted], name: str, label: str) -> Iterator[MetricSample]:
    for one in writers:
        for key, count in sorted(getattr(one.measures, name).items()):
            yield {"model": one.name, label: key}, count


def _times(writers: Sequence[Hosted]) -> Iterator[str]:
    name = "edgec_time_to_first_token_seconds"
    yield f"# HELP {name} From a request's place in the queue to its first piece.\n# TYPE {name} histogram\n"
    for one in writers:
        yield from _buckets(name, one.name, one.measures.first_seconds)


def _buckets(name: str, model: str, held: TimeHistogram) -> Iterator[str]:
    count = 0
    for bound, more in zip((*held.bounds, "+Inf"), held.counts, strict=True):
        count += more
        yield f"{name}_bucket{_labels({'model': model, 'le': str(bound)})} {count}\n"
    yield f"{name}_sum{_labels({'model': model})} {held.total:.6f}\n"
    yield f"{name}_count{_labels({'model': model})} {count}\n"


def _labels(labels: Labels) -> str:
    held = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{held}}}" if held else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
