"""A repeated command extends the existing experiment and drops no seed."""

from dataclasses import replace
from pathlib import Path

import pytest
from samples import configuration, experiment

from rlexp.app.execution.request import merge_with_existing
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import Layout
from rlexp.store.runs import read_experiment, write_experiment

PPO, A2C = configuration("ppo"), configuration("a2c")


def merged(folder: Path, existing: Experiment, requested: Experiment) -> Experiment:
    """The merged experiment, written to disk and read again."""
    paths = Layout(folder).experiment(existing.name)
    write_experiment(paths, existing)
    assert existing == read_experiment(paths)
    return merge_with_existing(paths, requested)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [(2, {"ppo": 3, "a2c": 6}), (5, {"ppo": 5, "a2c": 6}), (6, {"ppo": 6, "a2c": 6})],
)
def test_a_label_that_was_decided_early_keeps_its_smaller_number_of_seeds(
    tmp_path: Path, seeds: int, expected: dict[str, int]
) -> None:
    """A label with fewer seeds gets more only if a command requests more than it has."""
    existing = replace(experiment(PPO, A2C, test=6), allotted={PPO.fingerprint: 3})
    result = merged(tmp_path, existing, experiment(PPO, A2C, test=seeds))
    runs = [c.label for c, _ in result.specs(Phase.TEST)]
    assert expected == {label: runs.count(label) for label in ("ppo", "a2c")}


def test_another_definition_is_refused_label_by_label(tmp_path: Path) -> None:
    """The error has one line for a difference of all labels and one for a missing label."""
    existing = experiment(PPO, A2C)
    changed_configurations = [configuration(label, final_episodes=7) for label in ("ppo", "a2c")]
    with pytest.raises(RecordError) as caught:
        merged(tmp_path, existing, experiment(*changed_configurations))
    first, *lines = str(caught.value).splitlines()
    assert (
        "experiment sample exists with another definition; choose another name, for example "
        "experiment=sample-2"
    ) == first
    episodes = PPO.budget.final_episodes
    expected = (
        f"  budget.final_episodes: existing {episodes}, requested 7 (in all 2 configurations)"
    )
    assert [expected] == lines
    (tmp_path / "sample-2").mkdir()
    with pytest.raises(RecordError, match=r"experiment=sample-3\n  a2c is missing$"):
        merge_with_existing(Layout(tmp_path).experiment(existing.name), experiment(PPO))
