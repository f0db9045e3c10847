"""Runs that workers execute: each once, with the scores of a single command."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

OVERRIDES = (
    "experiment=x",
    "algorithm=ppo",
    "environment=cartpole",
    "budget.steps=3000",
    "budget.evaluation_every=1000",
    "seeds.test=4",
)
PULL = ("run", *OVERRIDES, "executor=pull")
SWEEP = (
    "sweep",
    "algorithm=ppo",
    "environment=cartpole",
    "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))",
    "budget.steps=3000",
    "budget.evaluation_every=1000",
    "tuner=random",
    "sweep.trials=4",
    "sweep.lag=2",
    "seeds.tuning=2",
    "seeds.selection=1",
    "seeds.test=1",
)
SLOW = {"RLEXP_QUICK": '{"seconds": 0.5}'}
LASTING = {"RLEXP_QUICK": '{"seconds": 60}'}
ONE_WORKER = ("--workers", "1")


@pytest.fixture(params=["kernel", pytest.param("heartbeats", marks=long)])
def study(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StudyFolder]:
    """A study whose runs train nothing, with locks of the kernel or with heartbeats."""
    with (
        pytest.MonkeyPatch.context() as patch,
        new_study(tmp_path / "a study", quick=True, warm=True) as study,
    ):
        if request.param == "heartbeats":
            patch.setenv("RLEXP_SHARED", "1")
        yield study


def scores(study: StudyFolder, experiment: str = "x") -> dict[str, float]:
    """The score of every run."""
    return {run["run"]: run["score"] for run in study.runs(experiment)}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The scores of one command that executes all runs itself."""
    with new_study(tmp_path_factory.mktemp("alone"), quick=True, warm=True) as study:
        code, output = study.give("run", *OVERRIDES, "-q")
        assert code == 0, output
        return scores(study)


def attempts(study: StudyFolder) -> list[int]:
    """The number of attempts of each run."""
    return [run["attempts"] for run in study.runs("x")]


def orders(study: StudyFolder) -> list[str]:
    """The names of the runs that have an order file."""
    return sorted(p.stem for p in (study.folder / "runs" / "x" / "orders").glob("*.json"))


def trials(experiment: Path) -> list[tuple[int, dict[str, float]]]:
    """The numbers and parameters of a sweep's trials."""
    lines = map(json.loads, (experiment / "trials.jsonl").read_text().splitlines())
    return [(line["number"], line["parameters"]) for line in lines]


def detach(study: StudyFolder) -> None:
    """Order the runs with `--detach`."""
    code, output = study.give(*PULL, "--detach")
    assert code == 0, output
    assert 4 == len(orders(study))


def test_two_workers_do_each_run_once(study: StudyFolder, expected: dict[str, float]) -> None:
    """Two workers make each run in one attempt, with the scores of one command."""
    detach(study)
    workers = [study.start("worker", "x", *ONE_WORKER) for _ in range(2)]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [0, 0] == [worker.returncode for worker in workers], outputs
    assert expected == scores(study)
    assert [1, 1, 1, 1] == attempts(study)
    assert [] == orders(study)


def test_a_worker_waits_for_a_command_that_begins_at_the_same_time(study: StudyFolder) -> None:
    """A worker that finds no run waits for the first one of a command that has just been given."""
    assert 0 == study.give("run", *OVERRIDES[:-1], "seeds.test=1", "-q")[0]
    worker = study.start("worker", "x", *ONE_WORKER)
    assert worker.stdout is not None
    assert "no run is queued" in worker.stdout.readline()
    code, output = study.give(*PULL)
    assert code == 0, output
    worker.communicate(timeout=60)
    assert [1, 1, 1, 1] == attempts(study)


def test_a_worker_ends_where_nothing_is_queued(study: StudyFolder) -> None:
    """A worker that finds no run within `--idle` seconds ends, and leaves the scores alone."""
    assert 0 == study.give("run", *OVERRIDES[:-1], "seeds.test=1", "-q")[0]
    code, output = study.give("worker", "x", "--idle=0.1")
    assert code == 0, output
    assert [1] == attempts(study)


def test_the_run_of_a_killed_worker_is_taken_by_another(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """The run of a killed worker is continued by another worker of the same machine."""
    detach(study)
    first = study.start("worker", "x", *ONE_WORKER, variables=SLOW)
    wait_until(lambda: study.events("x", "started"))
    first.kill()
    code, output = study.give("worker", "x")
    assert code == 0, output
    assert expected == scores(study)
    assert [1, 1, 1, 2] == sorted(attempts(study))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 75)])
def test_a_worker_that_is_asked_to_end_leaves_its_run_to_others(
    study: StudyFolder, expected: dict[str, float], number: signal.Signals, code: int
) -> None:
    """A worker after SIGTERM or SIGUSR1 interrupts its run and leaves the order to others."""
    detach(study)
    first = study.start("worker", "x", *ONE_WORKER, variables=SLOW)
    wait_until(lambda: study.events("x", "started"))
    first.send_signal(number)
    output, _ = first.communicate(timeout=60)
    assert code == first.returncode, output
    assert ["interrupted"] == [event["ending"] for event in study.events("x", "ended")]
    assert 4 == len(orders(study))
    assert 0 == study.give("worker", "x")[0]
    assert expected == scores(study)


@long
def test_a_command_waits_for_workers_and_shows_what_they_did(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """A command with executor=pull says how to start workers, and shows their results."""
    command = study.start(*PULL)
    wait_until(lambda: len(orders(study)) == 4)
    assert 0 == study.give("worker", "x")[0]
    output, _ = command.communicate(timeout=60)
    assert 0 == command.returncode, output
    assert "Start workers wherever" in output
    assert "every planned run has a score (4 of 4)" in output
    assert expected == scores(study)


def test_a_command_that_was_killed_takes_up_its_runs(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """A killed command that is repeated while a worker runs makes no further attempts."""
    command = study.start(*PULL)
    wait_until(lambda: len(orders(study)) == 4)
    worker = study.start("worker", "x", *ONE_WORKER, variables=SLOW)
    wait_until(lambda: study.events("x", "started"))
    command.kill()
    code, output = study.give(*PULL)
    assert code == 0, output
    worker.wait(timeout=60)
    assert expected == scores(study)
    assert [1, 1, 1, 1] == attempts(study)


@long
def test_a_command_on_this_machine_leaves_a_run_to_the_worker_that_has_it(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """executor=local waits for a run that a worker executes, and executes the other runs."""
    detach(study)
    worker = study.start("worker", "x", *ONE_WORKER, variables=SLOW)
    wait_until(lambda: study.events("x", "started"))
    code, output = study.give("run", *OVERRIDES)
    assert code == 0, output
    worker.wait(timeout=60)
    assert [1, 1, 1, 1] == attempts(study)
    assert expected == scores(study)


def test_what_is_cancelled_without_a_command_ends(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """`rlexp cancel` withdraws orders and interrupts runs after `--detach`; a repeat continues."""
    detach(study)
    worker = study.start("worker", "x", *ONE_WORKER, variables=LASTING)
    wait_until(lambda: study.events("x", "started"))
    assert "3 queued runs not yet taken by a worker" in study.give("status", "x")[1]
    code, output = study.give("cancel", "x")
    assert (code, "removed 4 runs" in output) == (0, True), output
    worker.wait(timeout=60)
    assert [] == orders(study)
    assert ["interrupted"] == [event["ending"] for event in study.events("x", "ended")]
    assert 0 == study.give("run", *OVERRIDES)[0]
    assert expected == scores(study)


@long
def test_a_stopped_command_ends_the_runs_of_its_workers(study: StudyFolder) -> None:
    """Ctrl-C interrupts the runs of all workers and removes the orders."""
    command = study.start(*PULL, "executor.grace=20")
    wait_until(lambda: len(orders(study)) == 4)
    worker = study.start("worker", "x", *ONE_WORKER, variables=LASTING)
    wait_until(lambda: study.events("x", "started"))
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=60)
    assert 130 == command.returncode, output
    assert 0 == worker.wait(timeout=60)
    assert [] == orders(study)
    assert ["interrupted"] == [event["ending"] for event in study.events("x", "ended")]


def test_a_sweep_is_the_same_whoever_executes_its_runs(study: StudyFolder) -> None:
    """A sweep with workers has the trials, winner and scores of a local sweep."""
    assert 0 == study.give(*SWEEP, "experiment=alone", "-q")[0]
    sweep = study.start(*SWEEP, "experiment=x", "executor=pull")
    wait_until(lambda: orders(study))
    worker = study.start("worker", "x", "--idle", "30")
    output, _ = sweep.communicate(timeout=120)
    assert 0 == sweep.returncode, output
    assert 0 == worker.wait(timeout=60)
    runs = study.folder / "runs"
    assert trials(runs / "alone") == trials(runs / "x")
    selections = [json.loads((runs / n / "selection.json").read_text()) for n in ("alone", "x")]
    assert selections[0] == selections[1]
    assert scores(study, "alone") == scores(study)


def test_what_only_the_folder_names_is_not_executed(study: StudyFolder) -> None:
    """A worker refuses runs with foreign code until `--allow-import` names the module, and gives the reason once."""
    code, output = study.give(
        *("run", "experiment=x", "environment=gymnasium", "executor=pull", "--detach"),
        *("environment.id=odd_environments:Odd-v0", "seeds.test=2", "budget.steps=3000"),
        "algorithm.n_steps=64",
    )
    assert code == 0, output
    code, output = study.give("worker", "x")
    counts = [
        output.count("worker x --allow-import odd_environments"),
        output.count("is skipped for the same reason"),
    ]
    assert (1, [1, 1]) == (code, counts), output
    assert [] == study.events("x", "started")
    assert 0 == study.give("worker", "x", "--allow-import", "odd_environments")[0]
    assert ["completed"] * 2 == [event["ending"] for event in study.events("x", "ended")]


MISTAKES = {
    ("worker", "nosuch"): "there is no experiment 'nosuch'",
    ("worker", "x", "seeds.test=3"): "it takes only overrides of its executor",
    ("worker", "x", "--job", "nosuch"): "nosuch cannot be read",
    ("run", *OVERRIDES, "--detach"): "choose executor=slurm or executor=pull",
}


def test_a_mistake_is_one_line(study: StudyFolder) -> None:
    """A wrong command is refused in one line and leaves the orders unchanged."""
    detach(study)
    for arguments, message in MISTAKES.items():
        code, output = study.give(*arguments)
        assert (2, 1, True) == (code, len(output.splitlines()), message in output), output
    assert 4 == len(orders(study))


@long
def test_a_damaged_order_is_left_alone_and_said(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """A worker names a damaged order and executes the other runs; a command runs the rest."""
    detach(study)
    damaged_order = study.folder / "runs" / "x" / "orders" / f"{orders(study)[0]}.json"
    damaged_order.write_text('{"schema": 1, "after": "none"}')
    code, output = study.give("worker", "x")
    assert (1, True) == (code, "is damaged" in output), output
    assert 1 == len(orders(study))
    assert 0 == study.give("run", *OVERRIDES)[0]
    assert expected == scores(study)


@long
def test_a_worker_ends_with_its_input(study: StudyFolder) -> None:
    """A worker with `--while-input` ends when its standard input is closed."""
    detach(study)
    worker = study.start("worker", "x", "--while-input", variables=SLOW, stdin=subprocess.PIPE)
    wait_until(lambda: study.events("x", "started"))
    assert worker.stdin is not None
    worker.stdin.close()
    assert 143 == worker.wait(timeout=60)
