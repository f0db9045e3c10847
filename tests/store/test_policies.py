"""The policies that the trainings of an experiment begin with."""

from pathlib import Path

import pytest

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, SavedPolicy
from rlexp.store.checkpoints.policies import keep_policy, read_policy
from rlexp.store.layout import ExperimentPaths

POLICY = SavedPolicy(model=b"parameters", normalisation=b"statistics")


def test_a_damaged_policy_is_stored_again(tmp_path: Path) -> None:
    """A damaged policy is never used, and the same command repairs it."""
    experiment = ExperimentPaths(tmp_path / "continued")
    keep_policy(experiment, POLICY, {})
    (experiment.policies / POLICY.digest / MODEL).write_bytes(b"param")
    with pytest.raises(RecordError, match="does not hold the policy that its name says"):
        read_policy(experiment, POLICY.digest)
    keep_policy(experiment, POLICY, {})
    assert POLICY == read_policy(experiment, POLICY.digest)
