"""Limits of MLflow: characters of keys, lengths of values, sizes of requests."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

from rlexp.trackers import MetricRow

KEY = 250
VALUE = 6000
TAG = 5000
NAME = 250
METRICS = 900
"""Metrics in one request: MLflow allows 1,000 entities in all, and a request also holds a tag."""
PARAMETERS = 100
REQUEST = 700_000
"""Bytes of a request's content; MLflow's limit is 1,000,000 including everything else."""
ILLEGAL = re.compile(r"[^/\w.\- ]")

T = TypeVar("T")
Text = tuple[str, str]
"""A key and its value."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One value of one metric, with its time in milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


@dataclass(frozen=True, slots=True)
class MetricBatch:
    """Metric values that fit into one request.

    Attributes:
        metrics: Values in the order of their steps.
        step: Every row up to this step is complete after the request; None if the last row of the
            request is not complete.
    """

    metrics: Sequence[MetricValue]
    step: int | None


@lru_cache(maxsize=10_000)
def legal_key(name: str) -> str:
    """A name as a legal key; a changed name ends in a hash, so that names stay different."""
    parts = [part if part.strip(".") else "_" for part in ILLEGAL.sub("_", name).split("/")]
    key = "/".join(parts)
    # MLflow rejects keys that could be read as a path to a parent folder.
    key = f"_{key}" if key.startswith("..") else key
    if key == name and len(key) <= KEY:
        return key
    mark = f"-{_digest(name)[:8]}"
    return f"{key[: KEY - len(mark)]}{mark}"


def readable(text: str, length: int) -> str:
    """A text of at most `length` characters that every database can store.

    A text that was cut ends in a hash of the whole.
    """
    # PostgreSQL refuses NUL characters, and UTF-8 cannot encode lone surrogates.
    clean = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if len(clean) <= length:
        return clean
    mark = f"… sha256:{_digest(clean)[:16]}"
    return f"{clean[: length - len(mark)]}{mark}"


def parameters_of(values: Mapping[str, Any]) -> list[Text]:
    """MLflow parameters of values by dotted key."""
    texts = {legal_key(key): _as_text(value) for key, value in values.items()}
    return [(key, readable(value, VALUE)) for key, value in texts.items()]


def tags_of(values: Mapping[str, Any]) -> list[Text]:
    """MLflow tags of the values that are not None."""
    present = {key: value for key, value in values.items() if value is not None}
    return [(legal_key(key), readable(_as_text(value), TAG)) for key, value in present.items()]


def metric_batches(rows: Iterable[MetricRow]) -> Iterator[MetricBatch]:
    """Rows divided into requests; a row is divided only if it exceeds the limits of a request."""
    batch: list[MetricValue] = []
    size = 0
    step: int | None = None
    for row in rows:
        for piece in batches(_metric_values(row), METRICS):
            more = sum(map(_size, piece))
            if batch and (len(batch) + len(piece) > METRICS or size + more > REQUEST):
                yield MetricBatch(batch, step)
                batch, size, step = [], 0, None
            batch += piece
            size += more
        step = row.step
    if step is not None:
        yield MetricBatch(batch, step)


def batches(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Items in lists of at most `most` items and at most the bytes of a request."""
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


def _metric_values(row: MetricRow) -> list[MetricValue]:
    time = max(int(row.time * 1000), 0)
    return [MetricValue(legal_key(k), float(v), time, row.step) for k, v in row.metrics.items()]


def _size(item: Any) -> int:
    """Bytes of an item in a request, in which JSON escapes non-ASCII characters."""
    # 120 bytes cover the JSON around the texts: field names, numbers and punctuation.
    texts = item if isinstance(item, tuple) else (item.key,)
    return 120 + sum(len(json.dumps(text)) for text in texts)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
