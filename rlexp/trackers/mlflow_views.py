"""What MLflow's page of an experiment shows: views of its runs, and the answer above them.

A view is the state of MLflow's own page (3.17), in the form that its button "Share view" stores.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.trackers import ExperimentSummary, TrackedExperiment
from rlexp.trackers.mlflow_note import NOTE, escaped, sources
from rlexp.trackers.mlflow_uri import CURVES_KEY, VIEW_KEY

SHARED = "mlflow.sharedViewState."
"""The beginning of the tag of an experiment that holds a view; its key follows."""
END_OF_NOTE = re.compile(r"Records: `runs/[^`]*`\.\Z")
"""How every note of rlexp ends. One that ends otherwise was written by a user."""


def view_tags(columns: Sequence[str], *, tests_only: bool) -> dict[str, str]:
    """The tags with the views of an experiment's runs: as a list, and as curves of labels.

    Args:
        columns: Metrics that the list shows, in this order.
        tests_only: Whether the curves are those of test runs only.
    """
    names = [f"metrics.`{name}`" for name in columns]
    # Without an order, MLflow sorts columns by name: the score would be behind the edge of the page.
    listed = {**_view(), "selectedColumns": names, "columnOrder": names}
    by_label = {"mode": "tag", "groupByData": "label"}
    curves = {
        **_view("tags.`phase` = 'test'" if tests_only else ""),
        "selectedColumns": names,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [by_label]},
    }
    views = {VIEW_KEY: listed, CURVES_KEY: curves}
    return {f"{SHARED}{key}": json.dumps(view) for key, view in views.items()}


def _view(search: str = "") -> dict[str, Any]:
    return {
        # By time and not by score: a tuning score on one seed must not come first.
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "searchFilter": search,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
    }


def experiment_note(
    experiment: TrackedExperiment, summary: ExperimentSummary, page: str | None, curves: str
) -> str:
    """The description of an experiment: MLflow shows its first line above the list of runs.

    Args:
        experiment: The experiment.
        summary: Its current results.
        page: The address of the report's page; None where no page was uploaded.
        curves: The address of the curves.
    """
    return " ".join(_note_parts(experiment, summary, page, curves))


def _note_parts(
    experiment: TrackedExperiment, summary: ExperimentSummary, page: str | None, curves: str
) -> Iterator[str]:
    if summary.answer is not None:
        yield f"{escaped(summary.answer.text)}."
    yield f"[Curves of labels]({curves})."
    yield sources(experiment, page)


def note_tag(present: Mapping[str, str], note: str) -> dict[str, str]:
    """The tag with the note; none where a user has written a description.

    Args:
        present: The tags of the experiment.
        note: The new note.
    """
    written = present.get(NOTE, "")
    return {NOTE: note} if not written or END_OF_NOTE.search(written) else {}
