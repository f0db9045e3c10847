"""A population whose command is killed comes to the numbers of its schedules, replayed from step 0."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study
from test_sweep_continuation import give_twice, numbers
from trainings import RecordingListener

from rlexp.app.execution.run_process import assemble
from rlexp.protocol.seeds import Phase
from rlexp.protocol.value_schedule import is_scheduled
from rlexp.store.checkpoints.shared_experience import read_experience
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment, read_run
from rlexp.store.sweeps import read_selection, read_trials
from rlexp.training.training_run import train

SIZE = ("tuner=pbt", "tuner.population=3", "tuner.generations=2", "sweep.trials=10")
SHORT = (
    *("environment.vector.count=1", "budget.steps=256", "budget.evaluation_every=64"),
    *("budget.evaluation_episodes=2", "budget.final_episodes=3", "sweep.allocation=fixed"),
    *("seeds.tuning=1", "seeds.selection=1", "seeds.test=1"),
)
RATE = "algorithm.learning_rate=interval(1e-4, 1e-2)"
GROWING = (
    *("agent.network=choice([8], [8, 8])", "agent.activation=choice(tanh, relu)"),
    *("tuner.growth=1.0", "tuner.new_units=[4, 8]"),
)
REPLAY = ("algorithm.learning_starts=40", "algorithm.buffer_size=200", "algorithm.batch_size=16")
CASES = {
    "ppo": ("algorithm=ppo", "algorithm.n_steps=32", "algorithm.batch_size=32", *GROWING),
    "dqn": (
        *(
            "algorithm=dqn",
            *REPLAY,
            "algorithm.train_freq=4",
            "algorithm.exploration_fraction=0.1",
        ),
        *(
            "algorithm.exploration_final_eps=0.2",
            "algorithm.exploration_initial_eps=0.2",
            *GROWING,
        ),
    ),
    "sac": ("algorithm=sac", "environment=pendulum", *REPLAY, *GROWING, "algorithm.train_freq=8"),
}
"""Populations with networks that grow: on-policy, and with replay buffers, which a copy inherits."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dqn", *(pytest.param(name, marks=long) for name in ("ppo", "sac"))]
)
def test_a_killed_population_equals_its_schedules_from_the_start(
    name: str, tmp_path: Path
) -> None:
    """After a SIGKILL, every member's weights and scores are those of its schedule without copies."""
    given = (*SIZE, *SHORT, *CASES[name], RATE, "algorithm.gamma=interval(0.9, 0.99)")
    with new_study(tmp_path / "study", warm=True) as study:
        replay = ("sweep", *given, "experiment=replayed", "sweep.continuation=false")
        code, output = study.give(*replay, "executor.workers=2")
        assert code == 0, output
        give_twice(study, "population", "sweep", *given)
        assert numbers(study, "replayed") == numbers(study, "population")
        check_lineages(study)
        check_choice(study)
        code, output = study.give("verify")
        assert code == 0, output


@long
@pytest.mark.slow
def test_members_that_share_transitions_equal_their_schedules_from_the_start(
    tmp_path: Path,
) -> None:
    """After a SIGKILL, members have the numbers of an unharmed sweep, and of a training from step 0."""
    given = (*SIZE, *SHORT, *CASES["dqn"], RATE, "tuner.shared_replay=true")
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give("sweep", *given, "experiment=unharmed", "executor.workers=2")
        assert code == 0, output
        give_twice(study, "population", "sweep", *given)
        assert numbers(study, "unharmed") == numbers(study, "population")
        code, output = study.give("verify")
        assert code == 0, output
        # The same schedule, with the same transitions at the same steps, and without copies.
        paths = ExperimentPaths(study.folder / "runs" / "population")
        runs = [read_run(run).record for run in paths.runs()]
        members = [
            r for r in runs if r.spec.parent and is_scheduled(r.spec.algorithm.get("experience"))
        ]
        assert members
        for record in members:
            training = replace(
                assemble(record.spec, operational={}),
                parent=None,
                read_experience=partial(read_experience, paths),
            )
            folder = tmp_path / record.spec.name
            folder.mkdir()
            end = train(training, RecordingListener(folder), folder)
            assert record.weights == end.weights


def check_lineages(study: StudyFolder) -> None:
    """Copies have changed values, and later parts continue runs that their identity names."""
    paths = ExperimentPaths(study.folder / "runs" / "population")
    trials = read_trials(paths)
    later = [t for t in trials if t.parent is not None and t.parents]
    assert later
    ids = {read_run(run).record.spec.id for run in paths.runs()}
    assert {p.run for t in later for p in t.parents if p is not None} <= ids
    changed = [
        t
        for t in trials
        if t.configuration is not None and is_scheduled(t.configuration.algorithm["learning_rate"])
    ]
    assert changed
    networks = [t.configuration.agent["network"] for t in changed if t.configuration is not None]
    # It may also be an activation alone that has changed.
    assert any(is_scheduled(network) for network in networks)
    code, output = study.give("best", "population", "--trial", str(changed[-1].number))
    # A schedule is shown as its values in their order, and not as JSON.
    assert (0, True, False) == (code, "→" in output, "{" in output), output


def check_choice(study: StudyFolder) -> None:
    """Both sweeps choose equally, test the same runs, and write the schedule that a run can use."""
    chosen = []
    for name in ("replayed", "population"):
        paths = ExperimentPaths(study.folder / "runs" / name)
        specs = [s for _, s in read_experiment(paths).specs(Phase.TEST)]
        chosen.append(
            (read_selection(paths), [read_run(paths.run(s.name)).record.score for s in specs])
        )
    assert chosen[0] == chosen[1]
    setting = "algorithm.learning_rate={schedule: runs/population/schedule.yaml}"
    code, output = study.give("run", setting, "--dry-run", "--no-probe")
    assert code == 0, output
