"""A sweep that continues runs with more steps comes to the numbers of runs from step 0."""

from functools import partial
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

from rlexp.protocol.seeds import Phase
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment, read_run
from rlexp.store.sweeps import read_trials

WORDS = (
    *("tuner=dehb", "tuner.eta=2", "tuner.minimum=0.5", "sweep.trials=4", "sweep.lag=0"),
    *("algorithm.gamma=interval(0.9, 0.99)", "algorithm=ppo", "algorithm.n_steps=32"),
    *("algorithm.batch_size=32", "agent.network=[8]", "environment.vector.count=1"),
    *("budget.steps=256", "budget.evaluation_every=64", "budget.evaluation_episodes=2"),
    *("budget.final_episodes=3", "seeds.tuning=1", "seeds.selection=0", "seeds.test=1"),
)
Numbers = list[tuple[int, int, str | None, float | None, list[tuple[int, float]]]]


def numbers(study: StudyFolder, name: str) -> Numbers:
    """Trial, steps, weights, score and evaluations of every tuning run, by trial."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    specs = {c.label: s for c, s in read_experiment(paths).specs(Phase.TUNING)}
    found: Numbers = []
    for trial in read_trials(paths):
        record = read_run(paths.run(specs[f"trial {trial.number}"].name)).record
        curve = [(e.step, e.mean) for e in record.evaluations]
        found.append((trial.number, trial.steps, record.weights, record.score, curve))
    return found


def give_twice(study: StudyFolder, name: str, *words: str) -> None:
    """Kill the command of an experiment where a run has inherited a state, and give it again."""
    words = (*words, f"experiment={name}")
    command = study.start(*words)
    wait_until(partial(study.events, name, "inherited"))
    command.kill()
    command.communicate(timeout=60)
    code, output = study.give(*words, "executor.workers=1")
    assert code == 0, output


def spent(study: StudyFolder, name: str) -> list[int]:
    """The environment steps that each run has trained that continues another one."""
    paths = ExperimentPaths(study.folder / "runs" / name)
    records = [read_run(run).record for run in paths.runs()]
    return [r.spent for r in records if r.spec.parent is not None]


@pytest.mark.slow
def test_a_killed_sweep_that_continues_runs_has_the_numbers_of_whole_runs(tmp_path: Path) -> None:
    """After a SIGKILL, trials, weights, scores and curves are those of runs from step 0."""
    with new_study(tmp_path / "study", warm=True) as study:
        train_whole_runs(study)
        give_twice(study, "continued", "sweep", *WORDS)
        check_continued(study)


@long
@pytest.mark.slow
def test_workers_receive_the_states_of_a_sweep(tmp_path: Path) -> None:
    """With executor=pull, the runs that a worker continues have the numbers of whole runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        train_whole_runs(study)
        command = study.start("sweep", *WORDS, "experiment=continued", "executor=pull")
        wait_until((study.folder / "runs" / "continued" / "orders").is_dir)
        worker = study.start("worker", "continued", "--idle=60")
        output, _ = command.communicate(timeout=120)
        worker.terminate()
        worker.communicate(timeout=60)
        assert command.returncode == 0, output
        check_continued(study)


def train_whole_runs(study: StudyFolder) -> None:
    """Make the sweep `whole`, whose runs begin at step 0."""
    code, output = study.give("sweep", *WORDS, "experiment=whole", "sweep.continuation=false")
    assert code == 0, output


def check_continued(study: StudyFolder) -> None:
    """The sweep `continued` has the numbers of `whole` for fewer steps, and records that fit."""
    assert numbers(study, "whole") == numbers(study, "continued")
    (steps,) = spent(study, "continued")
    assert steps < 256
    code, output = study.give("verify")
    assert code == 0, output
    assert not list((study.folder / "runs").glob("*/*/parent"))
