"""The single tag of an MLflow run that holds what only the tracker needs.

The tag holds JSON: the id of the tracked run, by which its MLflow run is found again, its
experiment and its group, up to which step its rows are stored, and digests of what was uploaded.
"""

import json
from collections.abc import Mapping
from typing import Any

from rlexp.trackers.mlflow_limits import NAME, Text, readable

TAG = "rlexp"


def bookkeeping_of(tags: Mapping[str, str]) -> dict[str, Any]:
    """The values in the tag; empty if there is no tag, or it was changed by hand."""
    try:
        values = json.loads(tags.get(TAG, ""))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def bookkeeping_tag(values: Mapping[str, Any]) -> Text:
    """The tag that holds these values."""
    # MLflow limits the length of a tag, and a label may be long.
    cut = {k: readable(v, NAME) if isinstance(v, str) else v for k, v in values.items()}
    return TAG, json.dumps(cut, sort_keys=True, separators=(",", ":"))


def filter_of(run_id: str) -> str:
    """MLflow's filter for the run with this id, which consists of hexadecimal digits."""
    return f'tags.`{TAG}` LIKE \'%"run":"{run_id}"%\''


def step_of(values: Mapping[str, Any]) -> int:
    """The step up to which all rows are stored; -1 for none."""
    step = values.get("step")
    return step if isinstance(step, int) else -1
