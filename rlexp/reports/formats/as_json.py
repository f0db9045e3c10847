"""The whole study as JSON, for programs: every number, every interval with all its fields."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from rlexp.reports.drawing.blocks import Study

SCHEMA_VERSION = 1


def render(study: Study) -> Mapping[str, bytes]:
    """The study as `report.json`.

    Keys stand in the order of the fields of `rlexp.reports.drawing.blocks`, and each block says its
    `kind`. Numbers are kept to the last bit; one that is not finite is `null`, as JSON has none.
    """
    content = {"schema_version": SCHEMA_VERSION, **plain(study)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    # A lone surrogate, as file names may hold, has no UTF-8, but has an escape in JSON.
    return {"report.json": f"{text}\n".encode(errors="backslashreplace")}


def plain(value: Any) -> Any:
    """A value of the study as JSON knows it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
