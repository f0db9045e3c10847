"""Trials and the selection of a sweep are written to its folder and read back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples import PRUNER, TUNER, configuration, experiment

from rlexp.errors import ProtocolError, RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.records.selection import Finalist, Selection
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_definition, read_experiment, write_experiment, write_run
from rlexp.store.sweeps import (
    StoredTrial,
    append_trial,
    read_selection,
    read_trials,
    write_selection,
)

SPACE = Space(
    parameters=(
        Parameter(key="algorithm", domain=Choice(("ppo", "a2c"))),
        Parameter(
            key="algorithm.learning_rate",
            domain=Real(1e-5, 1e-1, "log"),
            when={"algorithm": ("ppo",)},
        ),
        Parameter(key="algorithm.n_epochs", domain=Integer(1, 20, log=True)),
    )
)
PLAN = SweepPlan(
    trials=4,
    full_runs=None,
    steps=None,
    hours=None,
    allocation="two_stage",
    promoted=0.5,
    objective=("score", "spread"),
    aggregate="iqm",
    finalists=2,
    lag=3,
    failures="exclude",
    stop_after=5,
    storage=None,
)
SELECTION = Selection(
    winner=1, finalists=(Finalist(number=1, tuning=(1.0, 2.0), selection=(3.0,)),), rule="best"
)


def sweep_experiment() -> Experiment:
    """A sweep that has proposed no trial."""
    sweep = Sweep(
        name="mine",
        space=SPACE,
        tuner=TUNER,
        pruner=PRUNER,
        plan=PLAN,
    )
    return replace(experiment(configuration()), sweep=sweep)


def trial(number: int, **changes: Any) -> StoredTrial:
    """A trial of PPO with its own value of a hyperparameter."""
    trial_configuration = configuration(f"trial {number}")
    trial_configuration = replace(
        trial_configuration, algorithm={**trial_configuration.algorithm, "x": number}
    )
    values: dict[str, Any] = {
        "number": number,
        "parameters": {"algorithm": "ppo", "algorithm.learning_rate": 0.001 * number},
        "steps": 100,
        "configuration": trial_configuration,
    }
    return StoredTrial(**{**values, **changes})


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """A sweep with three trials, the last of which cannot be run."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, sweep_experiment())
    for number in range(2):
        append_trial(paths, trial(number, seconds=0.5))
    append_trial(paths, trial(2, configuration=None, refused="too large", parent=1))
    return paths


def test_a_sweep_is_read_as_it_was_written(paths: ExperimentPaths) -> None:
    """The definition of a sweep is read back unchanged, and trials keep its fingerprint."""
    stored, requested = read_definition(paths), sweep_experiment()
    assert requested.sweep == stored.sweep
    assert requested.fingerprint == stored.fingerprint
    assert requested.fingerprint == read_experiment(paths).fingerprint


def test_trials_are_read_as_they_were_written(paths: ExperimentPaths) -> None:
    """Each trial is read with its configuration, or with the reason why it has none."""
    trials = read_trials(paths)
    assert [trial(0, seconds=0.5), trial(1, seconds=0.5)] == trials[:2]
    assert (None, "too large", 1) == (
        trials[2].configuration,
        trials[2].refused,
        trials[2].parent,
    )


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_torn_line_is_written_over(paths: ExperimentPaths, cut: int) -> None:
    """A torn last line is no trial, and the next trial replaces it."""
    content = paths.trials.read_bytes()
    last = content[:-1].rindex(b"\n") + 1
    paths.trials.write_bytes(content[: max(last, len(content) - cut)])
    assert 2 == len(read_trials(paths))
    append_trial(paths, trial(2))
    assert [0, 1, 2] == [t.number for t in read_trials(paths)]


def test_a_torn_line_longer_than_a_block_is_written_over(paths: ExperimentPaths) -> None:
    """A torn line of any length is replaced by the next trial."""
    with paths.trials.open("ab") as file:
        file.write(b"x" * 200_000)
    append_trial(paths, trial(3))
    assert [0, 1, 2, 3] == [t.number for t in read_trials(paths)]


@pytest.mark.parametrize(
    "line", [b"{}", b"nonsense", b'{"schema": 2}', b"[1]", b"\xff", b'{"schema":1,"number":"x"}']
)
def test_a_damaged_line_is_refused(paths: ExperimentPaths, line: bytes) -> None:
    """A complete line that is no trial is an error that names the file."""
    with paths.trials.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RecordError, match=r"trials\.jsonl is"):
        read_trials(paths)


def test_a_lost_line_is_refused(paths: ExperimentPaths) -> None:
    """Trials that are not numbered without gaps are refused."""
    lines = paths.trials.read_bytes().splitlines(keepends=True)
    paths.trials.write_bytes(lines[0] + lines[2])
    with pytest.raises(RecordError, match="not numbered"):
        read_trials(paths)


def test_the_selection_is_made_once(paths: ExperimentPaths) -> None:
    """After the selection, a second selection and a further trial are refused."""
    assert read_selection(paths) is None
    write_selection(paths, SELECTION)
    with pytest.raises(ProtocolError, match="a winner is chosen once"):
        write_selection(paths, replace(SELECTION, winner=0))
    with pytest.raises(ProtocolError, match="takes no further trial"):
        append_trial(paths, trial(3))
    assert SELECTION == read_selection(paths)


def test_test_runs_before_the_selection_are_refused(paths: ExperimentPaths) -> None:
    """Test runs are refused before the selection, and other runs are refused after it."""
    specs = {phase: configuration().spec(phase, 0, 0) for phase in Phase}
    with pytest.raises(ProtocolError, match="test runs come after that"):
        write_run(paths.run("early"), specs[Phase.TEST])
    write_run(paths.run("tuning"), specs[Phase.TUNING])
    write_selection(paths, SELECTION)
    write_run(paths.run("test"), specs[Phase.TEST])
    for phase in (Phase.TUNING, Phase.SELECTION):
        with pytest.raises(ProtocolError, match="could not change it"):
            write_run(paths.run(f"late-{phase}"), specs[phase])


def test_winner_and_default_are_tested_after_the_selection(paths: ExperimentPaths) -> None:
    """The default has test runs before the selection, and the winner and the default after it."""
    assert ["default"] == [c.label for c in read_experiment(paths).configurations]
    write_selection(paths, SELECTION)
    stored = read_experiment(paths)
    assert ["tuned", "default"] == [c.label for c in stored.configurations]
    assert 1 == stored.configurations[0].algorithm["x"]
    assert ["trial 1"] == [c.label for c in stored.of_phase(Phase.SELECTION)]
    assert ["trial 0", "trial 1"] == [c.label for c in stored.of_phase(Phase.TUNING)]


def test_a_default_that_wins_is_tested_alone(paths: ExperimentPaths) -> None:
    """If trial 0 wins, only the default is tested."""
    write_selection(
        paths, replace(SELECTION, winner=0, finalists=(Finalist(number=0, tuning=(1.0,)),))
    )
    assert ["default"] == [c.label for c in read_experiment(paths).configurations]


@pytest.mark.parametrize("content", ["{}", "[]", '{"schema": 1, "winner": 5}', "x"])
def test_a_damaged_selection_is_refused(paths: ExperimentPaths, content: str) -> None:
    """A damaged selection is an error, and does not count as a missing one."""
    paths.selection.write_text(content)
    with pytest.raises(RecordError, match=r"selection\.json"):
        read_selection(paths)


@pytest.mark.parametrize("rule", [None, 7, 0.5, ["best"], {}])
def test_a_selection_whose_rule_is_no_text_is_damaged(
    paths: ExperimentPaths, rule: object
) -> None:
    """A selection whose rule is no text is refused, because the report quotes the rule."""
    write_selection(paths, SELECTION)
    paths.selection.chmod(0o600)
    document = json.loads(paths.selection.read_text())
    paths.selection.write_text(json.dumps({**document, "rule": rule}))
    with pytest.raises(RecordError, match=r"selection\.json is damaged"):
        read_selection(paths)


@pytest.mark.parametrize("steps", [0, -1, 10**400])
def test_a_trial_with_invalid_steps_is_refused(paths: ExperimentPaths, steps: int) -> None:
    """A trial with zero, negative or too many steps is refused."""
    first, *other_lines = paths.trials.read_text().splitlines(keepends=True)
    changed_line = json.dumps({**json.loads(first), "steps": steps}) + "\n"
    paths.trials.write_text("".join([changed_line, *other_lines]))
    with pytest.raises(RecordError, match=r"trials\.jsonl is damaged"):
        read_trials(paths)


def test_limits_do_not_change_the_fingerprint() -> None:
    """Limits and test seeds do not change the fingerprint; the lag and tuning seeds do."""
    original = sweep_experiment()
    assert original.sweep is not None
    more_trials = replace(
        original, sweep=replace(original.sweep, plan=replace(PLAN, trials=9, hours=2.0))
    )
    longer_lag = replace(original, sweep=replace(original.sweep, plan=replace(PLAN, lag=4)))
    more_tuning_seeds = replace(original, seeds=replace(original.seeds, tuning=4))
    more_test_seeds = replace(original, seeds=replace(original.seeds, test=9))
    assert original.fingerprint == more_trials.fingerprint == more_test_seeds.fingerprint
    assert len({original.fingerprint, longer_lag.fingerprint, more_tuning_seeds.fingerprint}) == 3
