"""What MLflow takes: the letters of keys, the lengths of values, the sizes of requests."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

from rlexp.trackers import Row
from rlexp.trackers.flatten import flattened

KEY = 250
VALUE = 6000
TAG = 5000
NAME = 250
METRICS = 900
"""In a request, which also holds a tag, and at most 1,000 things."""
PARAMETERS = 100
REQUEST = 700_000
"""Bytes of a request's content; MLflow takes a million, what is around it included."""
ILLEGAL = re.compile(r"[^/\w.\- ]")

T = TypeVar("T")
Text = tuple[str, str]
"""A key and a value."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One value of one metric, as MLflow takes it: milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


@dataclass(frozen=True, slots=True)
class MetricBatch:
    """What fits into a request.

    Attributes:
        metrics: Values in the order of their steps.
        step: Up to which every row is complete with them; none in the middle of a row.
    """

    metrics: Sequence[MetricValue]
    step: int | None


@lru_cache(maxsize=10_000)
def legal_key(name: str) -> str:
    """A name as a key: one that had to be changed ends in a hash, so that no two become one."""
    parts = [part if part.strip(".") else "_" for part in ILLEGAL.sub("_", name).split("/")]
    key = "/".join(parts)
    # It might be a path that leads upwards.
    key = f"_{key}" if key.startswith("..") else key
    if key == name and len(key) <= KEY:
        return key
    mark = f"-{_digest(name)[:8]}"
    return f"{key[: KEY - len(mark)]}{mark}"


def readable(text: str, length: int) -> str:
    """A text of at most so many characters, with letters that every database takes.

    What had to be cut ends in a hash of the whole.
    """
    clean = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(clean) <= length:
        return clean
    mark = f"… sha256:{_digest(clean)[:16]}"
    return f"{clean[: length - len(mark)]}{mark}"


def parameters_of(configuration: Mapping[str, Any]) -> list[Text]:
    """A configuration as parameters: one for each value, with a dotted key."""
    told = {legal_key(key): _as_text(value) for key, value in flattened(configuration).items()}
    return [(key, readable(value, VALUE)) for key, value in told.items()]


def tags_of(values: Mapping[str, Any]) -> list[Text]:
    """Tags of what is known."""
    told = {key: value for key, value in values.items() if value is not None}
    return [(legal_key(key), readable(_as_text(value), TAG)) for key, value in told.items()]


def metric_batches(rows: Iterable[Row]) -> Iterator[MetricBatch]:
    """Rows in requests; a row is in one request, unless it is larger than any may be."""
    held: list[MetricValue] = []
    size = 0
    step: int | None = None
    for row in rows:
        for piece in batches(_metric_values(row), METRICS):
            more = sum(map(_size, piece))
            if held and (len(held) + len(piece) > METRICS or size + more > REQUEST):
                yield MetricBatch(held, step)
                held, size, step = [], 0, None
            held += piece
            size += more
        step = row.step
    if step is not None:
        yield MetricBatch(held, step)


def batches(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Items in lists of at most so many, and of at most a request's bytes."""
    batch: list[T] = []
    size = 0
    for item in items:
        more = _size(item)
        if batch and (len(batch) == most or size + more > REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch


def _metric_values(row: Row) -> list[MetricValue]:
    time = max(int(row.time * 1000), 0)
    return [MetricValue(legal_key(k), float(v), time, row.step) for k, v in row.metrics.items()]


def _size(item: Any) -> int:
    """Bytes that it takes in a request, other letters than English ones escaped."""
    words = item if isinstance(item, tuple) else (item.key,)
    return 120 + sum(len(json.dumps(word)) for word in words)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
