"""What defines a metric: its class and the values of its fields, as JSON values."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

CLASS = "_target_"
"""The key of the class, as in `conf/metric`."""
CUT = "cut"
"""A field that is no part of a definition: the setting `iqm` of reports gives it its value."""


def definition_of_metric(metric: object) -> dict[str, Any]:
    """The class of a metric as `_target_`, and the values of its fields.

    Two metrics with the same definition compute the same number. The code of the class is no part of it.
    """
    kind = type(metric)
    if is_dataclass(metric):
        values = {field.name: getattr(metric, field.name) for field in fields(metric)}
    else:
        values = dict(getattr(metric, "__dict__", {}))
    values.pop(CUT, None)
    # What was read from a register is JSON: tuples became lists there, for example.
    arguments: dict[str, Any] = json.loads(json.dumps(values, default=repr, sort_keys=True))
    return {CLASS: f"{kind.__module__}.{kind.__qualname__}", **arguments}
