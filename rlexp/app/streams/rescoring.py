"""Scores repetitions of a stream's runs by the trusted code, as the runs themselves were scored."""

import time
from collections.abc import Sequence

from rlexp.app.streams.scoring import publish_scores, score_runs
from rlexp.app.streams.training import open_checkouts
from rlexp.app.workspace import Workspace
from rlexp.protocol.budget import LEAN
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold
from rlexp.store.registers.streams import intact_stream, is_stream


def score_repetitions(
    stream: ExperimentPaths,
    repeated: ExperimentPaths,
    records: Sequence[RunRecord],
    workspace: Workspace,
) -> None:
    """Write the scores of repeated runs into their folders; other runs have scores of their own.

    Args:
        stream: The experiment of the original runs.
        repeated: The experiment of their repetitions.
        records: The repetitions that have ended.
        workspace: The user's workspace.

    Raises:
        RecordError: The register was changed, or the repository lacks the trusted code.
    """
    candidates = [record for record in records if record.spec.is_of_candidate]
    if not candidates or not is_stream(stream):
        return
    beginning = intact_stream(stream).beginning
    if beginning is None:
        return
    lean = bool(beginning.operational.get(LEAN, True))
    with open_checkouts(workspace) as checkouts:
        trusted = checkouts.of(beginning.commit)
        scored = score_runs(repeated, candidates, trusted, workspace, lean=lean)
    with hold(repeated.lock, f"experiment {repeated.name}", now=time.time()):
        publish_scores(repeated, scored)
