"""What a sweep's folder holds: proposals and the choice, written before they are acted on."""

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


def question() -> Experiment:
    """A sweep that has proposed nothing."""
    sweep = Sweep(
        name="mine",
        space=SPACE,
        tuner=TUNER,
        pruner=PRUNER,
        plan=PLAN,
    )
    return replace(experiment(configuration()), sweep=sweep)


def trial(number: int, **changes: Any) -> StoredTrial:
    """A proposal of PPO with a hyperparameter of its own."""
    own = configuration(f"trial {number}")
    own = replace(own, algorithm={**own.algorithm, "x": number})
    values: dict[str, Any] = {
        "number": number,
        "parameters": {"algorithm": "ppo", "algorithm.learning_rate": 0.001 * number},
        "steps": 100,
        "configuration": own,
    }
    return StoredTrial(**{**values, **changes})


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """A sweep with three trials, the last of which cannot be run."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, question())
    for number in range(2):
        append_trial(paths, trial(number, seconds=0.5))
    append_trial(paths, trial(2, configuration=None, refused="too large", parent=1))
    return paths


def test_a_question_comes_back_as_it_was_written(paths: ExperimentPaths) -> None:
    """Space, plan, tuner and pruner are read as they were written; trials are no part of it."""
    there, requested = read_definition(paths), question()
    assert requested.sweep == there.sweep
    assert requested.fingerprint == there.fingerprint
    assert requested.fingerprint == read_experiment(paths).fingerprint


def test_trials_come_back_as_they_were_written(paths: ExperimentPaths) -> None:
    """Each proposal keeps its configuration, or why it has none."""
    results = read_trials(paths)
    assert [trial(0, seconds=0.5), trial(1, seconds=0.5)] == results[:2]
    assert (None, "too large", 1) == (
        results[2].configuration,
        results[2].refused,
        results[2].parent,
    )


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_torn_line_is_written_over(paths: ExperimentPaths, cut: int) -> None:
    """What a crash left of a last line is no trial, and the next one takes its place."""
    content = paths.trials.read_bytes()
    last = content[:-1].rindex(b"\n") + 1
    paths.trials.write_bytes(content[: max(last, len(content) - cut)])
    assert 2 == len(read_trials(paths))
    append_trial(paths, trial(2))
    assert [0, 1, 2] == [t.number for t in read_trials(paths)]


def test_a_torn_line_longer_than_a_block_is_written_over(paths: ExperimentPaths) -> None:
    """The end of the last whole line is found however much was torn."""
    with paths.trials.open("ab") as file:
        file.write(b"x" * 200_000)
    append_trial(paths, trial(3))
    assert [0, 1, 2, 3] == [t.number for t in read_trials(paths)]


@pytest.mark.parametrize(
    "line", [b"{}", b"nonsense", b'{"schema": 2}', b"[1]", b"\xff", b'{"schema":1,"number":"x"}']
)
def test_a_damaged_line_is_said(paths: ExperimentPaths, line: bytes) -> None:
    """A whole line that is no trial is damage, named with its file."""
    with paths.trials.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RecordError, match=r"trials\.jsonl is"):
        read_trials(paths)


def test_a_lost_line_is_said(paths: ExperimentPaths) -> None:
    """Trials that are not numbered one after the other are damage."""
    lines = paths.trials.read_bytes().splitlines(keepends=True)
    paths.trials.write_bytes(lines[0] + lines[2])
    with pytest.raises(RecordError, match="not numbered"):
        read_trials(paths)


def test_the_choice_is_made_once(paths: ExperimentPaths) -> None:
    """A second choice and a further trial are refused, and the first choice stays."""
    assert read_selection(paths) is None
    write_selection(paths, SELECTION)
    with pytest.raises(ProtocolError, match="a winner is chosen once"):
        write_selection(paths, replace(SELECTION, winner=0))
    with pytest.raises(ProtocolError, match="takes no further trial"):
        append_trial(paths, trial(3))
    assert SELECTION == read_selection(paths)


def test_the_store_refuses_test_runs_before_the_choice(paths: ExperimentPaths) -> None:
    """Before the choice no test run can be written, after it no run to choose by."""
    specs = {phase: configuration().spec(phase, 0, 0) for phase in Phase}
    with pytest.raises(ProtocolError, match="test runs come after that"):
        write_run(paths.run("early"), specs[Phase.TEST])
    write_run(paths.run("tuning"), specs[Phase.TUNING])
    write_selection(paths, SELECTION)
    write_run(paths.run("test"), specs[Phase.TEST])
    for phase in (Phase.TUNING, Phase.SELECTION):
        with pytest.raises(ProtocolError, match="could not change it"):
            write_run(paths.run(f"late-{phase}"), specs[phase])


def test_after_the_choice_winner_and_default_are_tested(paths: ExperimentPaths) -> None:
    """Test runs are those of the default until the choice, then of the winner, too."""
    assert ["default"] == [c.label for c in read_experiment(paths).configurations]
    write_selection(paths, SELECTION)
    results = read_experiment(paths)
    assert ["tuned", "default"] == [c.label for c in results.configurations]
    assert 1 == results.configurations[0].algorithm["x"]
    assert ["trial 1"] == [c.label for c in results.of_phase(Phase.SELECTION)]
    assert ["trial 0", "trial 1"] == [c.label for c in results.of_phase(Phase.TUNING)]


def test_a_default_that_wins_is_tested_alone(paths: ExperimentPaths) -> None:
    """Where trial 0 wins there is one configuration to test."""
    write_selection(
        paths, replace(SELECTION, winner=0, finalists=(Finalist(number=0, tuning=(1.0,)),))
    )
    assert ["default"] == [c.label for c in read_experiment(paths).configurations]


@pytest.mark.parametrize("content", ["{}", "[]", '{"schema": 1, "winner": 5}', "x"])
def test_a_damaged_choice_is_said(paths: ExperimentPaths, content: str) -> None:
    """A choice that makes no sense is damage, not no choice."""
    paths.selection.write_text(content)
    with pytest.raises(RecordError, match=r"selection\.json"):
        read_selection(paths)


@pytest.mark.parametrize("rule", [None, 7, 0.5, ["best"], {}])
def test_a_choice_whose_rule_is_no_text_is_damaged(paths: ExperimentPaths, rule: object) -> None:
    """The report quotes the rule, so it has to be text."""
    write_selection(paths, SELECTION)
    paths.selection.chmod(0o600)
    document = json.loads(paths.selection.read_text())
    paths.selection.write_text(json.dumps({**document, "rule": rule}))
    with pytest.raises(RecordError, match=r"selection\.json is damaged"):
        read_selection(paths)


@pytest.mark.parametrize("steps", [0, -1, 10**400])
def test_a_trial_of_impossible_length_is_damage(paths: ExperimentPaths, steps: int) -> None:
    """Every sum over trials can be computed with the lengths that are read."""
    first, *others = paths.trials.read_text().splitlines(keepends=True)
    changed = json.dumps({**json.loads(first), "steps": steps}) + "\n"
    paths.trials.write_text("".join([changed, *others]))
    with pytest.raises(RecordError, match=r"trials\.jsonl is damaged"):
        read_trials(paths)


def test_limits_are_no_part_of_the_question() -> None:
    """More trials are the same question; another lag, space or number of tuning seeds is not."""
    requested = question()
    assert requested.sweep is not None
    longer = replace(
        requested, sweep=replace(requested.sweep, plan=replace(PLAN, trials=9, hours=2.0))
    )
    lagging = replace(requested, sweep=replace(requested.sweep, plan=replace(PLAN, lag=4)))
    seeds = replace(requested, seeds=replace(requested.seeds, tuning=4))
    tests = replace(requested, seeds=replace(requested.seeds, test=9))
    assert requested.fingerprint == longer.fingerprint == tests.fingerprint
    assert len({requested.fingerprint, lagging.fingerprint, seeds.fingerprint}) == 3
