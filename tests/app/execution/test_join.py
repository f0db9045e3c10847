"""A repeated command extends the existing experiment: seeds add up, and none is dropped."""

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


def joined(folder: Path, there: Experiment, asked: Experiment) -> Experiment:
    """The merged experiment, written to disk and read again."""
    paths = Layout(folder).experiment(there.name)
    write_experiment(paths, there)
    assert there == read_experiment(paths)
    return merge_with_existing(paths, asked)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(2, {"ppo": 3, "a2c": 6}), (5, {"ppo": 5, "a2c": 6}), (6, {"ppo": 6, "a2c": 6})],
)
def test_a_label_that_was_decided_early_keeps_its_smaller_number_of_seeds(
    tmp_path: Path, wanted: int, expected: dict[str, int]
) -> None:
    """Its number of seeds grows only when a command requests more."""
    there = replace(experiment(PPO, A2C, test=6), allotted={PPO.fingerprint: 3})
    both = joined(tmp_path, there, experiment(PPO, A2C, test=wanted))
    runs = [c.label for c, _ in both.specs(Phase.TEST)]
    assert expected == {label: runs.count(label) for label in ("ppo", "a2c")}


def test_another_definition_is_refused_label_by_label(tmp_path: Path) -> None:
    """The message has a line for a shared difference and a line for a missing label."""
    there = experiment(PPO, A2C)
    changed = [configuration(label, final_episodes=7) for label in ("ppo", "a2c")]
    with pytest.raises(RecordError) as caught:
        joined(tmp_path, there, experiment(*changed))
    first, *lines = str(caught.value).splitlines()
    assert first.startswith("experiment sample exists with another definition")
    before = PPO.budget.final_episodes
    expected = f"  budget.final_episodes: existing {before}, requested 7 (in all 2 configurations)"
    assert [expected] == lines
    with pytest.raises(RecordError, match=r"\n  a2c is missing$"):
        merge_with_existing(Layout(tmp_path).experiment(there.name), experiment(PPO))
