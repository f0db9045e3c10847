"""The report as JSON for programs: every number, and every interval with all its fields."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from rlexp.reports.drawing.blocks import ReportDocument

SCHEMA_VERSION = 1


def render(study: ReportDocument) -> Mapping[str, bytes]:
    """The report as `report.json`.

    Keys have the order of the fields in `rlexp.reports.drawing.blocks`, and each block has its
    `kind`. Numbers keep full precision; a non-finite number is `null`, as JSON has no other form.
    """
    content = {"schema_version": SCHEMA_VERSION, **as_json_value(study)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    # File names may contain lone surrogates, which UTF-8 cannot encode but JSON can escape.
    return {"report.json": f"{text}\n".encode(errors="backslashreplace")}


def as_json_value(value: Any) -> Any:
    """A value of the report as a JSON value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json_value(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [as_json_value(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
