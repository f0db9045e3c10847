"""Runs that workers take: done once, by whoever lives, with the numbers of a single command."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

ASKED = (
    "experiment=x",
    "algorithm=ppo",
    "environment=cartpole",
    "budget.steps=3000",
    "budget.evaluation_every=1000",
    "seeds.test=4",
)
PULL = ("run", *ASKED, "executor=pull")
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
ONE = ("--workers", "1")


@pytest.fixture(params=["kernel", pytest.param("heartbeats", marks=long)])
def study(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StudyFolder]:
    """A study whose runs train nothing, on a disk of its own or on a shared one."""
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
    """The scores of one command that executes everything itself."""
    with new_study(tmp_path_factory.mktemp("alone"), quick=True, warm=True) as study:
        code, output = study.give("run", *ASKED, "-q")
        assert code == 0, output
        return scores(study)


def attempts(study: StudyFolder) -> list[int]:
    """How many attempts each run took."""
    return [run["attempts"] for run in study.runs("x")]


def orders(study: StudyFolder) -> list[str]:
    """The runs that orders are there for."""
    return sorted(p.stem for p in (study.folder / "runs" / "x" / "orders").glob("*.json"))


def proposed(experiment: Path) -> list[tuple[int, dict[str, float]]]:
    """The trials of a sweep: number and parameters."""
    lines = map(json.loads, (experiment / "trials.jsonl").read_text().splitlines())
    return [(line["number"], line["parameters"]) for line in lines]


def detach(study: StudyFolder) -> None:
    """Order the runs, and let them be."""
    code, output = study.give(*PULL, "--detach")
    assert code == 0, output
    assert 4 == len(orders(study))


def test_two_workers_do_each_run_once(study: StudyFolder, expected: dict[str, float]) -> None:
    """Together they do what one command does, each run in one attempt, and leave no order."""
    detach(study)
    workers = [study.start("worker", "x", *ONE) for _ in range(2)]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [0, 0] == [worker.returncode for worker in workers], outputs
    assert expected == scores(study)
    assert [1, 1, 1, 1] == attempts(study)
    assert [] == orders(study)


def test_the_run_of_a_killed_worker_is_taken_by_another(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """After kill -9 of a worker, another one of the same machine goes on at once."""
    detach(study)
    first = study.start("worker", "x", *ONE, variables=SLOW)
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
    """Its run is recorded as interrupted, its order stays; SIGUSR1 asks to be queued again."""
    detach(study)
    first = study.start("worker", "x", *ONE, variables=SLOW)
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
    """`executor=pull` says how to start workers, and ends with the summary of every other run."""
    command = study.start(*PULL)
    wait_until(lambda: len(orders(study)) == 4)
    assert 0 == study.give("worker", "x")[0]
    output, _ = command.communicate(timeout=60)
    assert 0 == command.returncode, output
    assert "Start workers wherever" in output
    assert "n = 4 of 4 runs" in output
    assert expected == scores(study)


def test_a_command_that_was_killed_takes_up_its_runs(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """Workers go on without it; given again while they run, it doubles nothing."""
    command = study.start(*PULL)
    wait_until(lambda: len(orders(study)) == 4)
    worker = study.start("worker", "x", *ONE, variables=SLOW)
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
    """The same experiment with executor=local waits for that run's end, and does the others."""
    detach(study)
    worker = study.start("worker", "x", *ONE, variables=SLOW)
    wait_until(lambda: study.events("x", "started"))
    code, output = study.give("run", *ASKED)
    assert code == 0, output
    worker.wait(timeout=60)
    assert [1, 1, 1, 1] == attempts(study)
    assert expected == scores(study)


def test_what_is_cancelled_without_a_command_ends(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """Orders are taken back and runs interrupted; the same command later continues."""
    detach(study)
    worker = study.start("worker", "x", *ONE, variables=LASTING)
    wait_until(lambda: study.events("x", "started"))
    assert "3 queued runs not yet taken by a worker" in study.give("status", "x")[1]
    code, output = study.give("cancel", "x")
    assert (code, "removed 4 runs" in output) == (0, True), output
    worker.wait(timeout=60)
    assert [] == orders(study)
    assert ["interrupted"] == [event["ending"] for event in study.events("x", "ended")]
    assert 0 == study.give("run", *ASKED)[0]
    assert expected == scores(study)


@long
def test_a_stopped_command_ends_the_runs_of_its_workers(study: StudyFolder) -> None:
    """Ctrl-C ends what runs, wherever it runs, and takes back what does not."""
    command = study.start(*PULL, "executor.grace=20")
    wait_until(lambda: len(orders(study)) == 4)
    worker = study.start("worker", "x", *ONE, variables=LASTING)
    wait_until(lambda: study.events("x", "started"))
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=60)
    assert 130 == command.returncode, output
    assert 0 == worker.wait(timeout=60)
    assert [] == orders(study)
    assert ["interrupted"] == [event["ending"] for event in study.events("x", "ended")]


def test_a_sweep_is_the_same_whoever_executes_its_runs(study: StudyFolder) -> None:
    """With workers, the trials, the winner and its test score are those of one machine."""
    assert 0 == study.give(*SWEEP, "experiment=alone", "-q")[0]
    sweep = study.start(*SWEEP, "experiment=x", "executor=pull")
    wait_until(lambda: orders(study))
    worker = study.start("worker", "x", "--idle", "30")
    output, _ = sweep.communicate(timeout=120)
    assert 0 == sweep.returncode, output
    assert 0 == worker.wait(timeout=60)
    runs = study.folder / "runs"
    assert proposed(runs / "alone") == proposed(runs / "x")
    chosen = [json.loads((runs / n / "selection.json").read_text()) for n in ("alone", "x")]
    assert chosen[0] == chosen[1]
    assert scores(study, "alone") == scores(study)


def test_what_only_the_folder_names_is_not_executed(study: StudyFolder) -> None:
    """A run that names foreign code is left alone, with the option that allows it."""
    code, output = study.give(
        *("run", "experiment=x", "environment=gymnasium", "executor=pull", "--detach"),
        *("environment.id=odd_environments:Odd-v0", "seeds.test=1", "budget.steps=3000"),
        "algorithm.n_steps=64",
    )
    assert code == 0, output
    code, output = study.give("worker", "x")
    assert (1, True) == (code, "--allow-import odd_environments" in output), output
    assert [] == study.events("x", "started")
    assert 0 == study.give("worker", "x", "--allow-import", "odd_environments")[0]
    assert ["completed"] == [event["ending"] for event in study.events("x", "ended")]


MISTAKES = {
    ("worker", "nosuch"): "there is no experiment 'nosuch'",
    ("worker", "x", "seeds.test=3"): "it takes only overrides of its executor",
    ("worker", "x", "--job", "nosuch"): "nosuch cannot be read",
    ("run", *ASKED, "--detach"): "choose executor=slurm or executor=pull",
}


def test_a_mistake_is_one_line(study: StudyFolder) -> None:
    """What cannot be done is said in a line, and changes nothing."""
    detach(study)
    for arguments, messages in MISTAKES.items():
        code, output = study.give(*arguments)
        assert (2, 1, True) == (code, len(output.splitlines()), messages in output), output
    assert 4 == len(orders(study))


@long
def test_a_damaged_order_is_left_alone_and_said(
    study: StudyFolder, expected: dict[str, float]
) -> None:
    """The other runs are executed; the command that gave the order can give it again."""
    detach(study)
    bad = study.folder / "runs" / "x" / "orders" / f"{orders(study)[0]}.json"
    bad.write_text('{"schema": 1, "after": "none"}')
    code, output = study.give("worker", "x")
    assert (1, True) == (code, "is damaged" in output), output
    assert 1 == len(orders(study))
    assert 0 == study.give("run", *ASKED)[0]
    assert expected == scores(study)


@long
def test_a_worker_ends_with_its_input(study: StudyFolder) -> None:
    """Held by a pipe, it ends when whoever holds the other end has gone."""
    detach(study)
    worker = study.start("worker", "x", "--while-input", variables=SLOW, stdin=subprocess.PIPE)
    wait_until(lambda: study.events("x", "started"))
    assert worker.stdin is not None
    worker.stdin.close()
    assert 143 == worker.wait(timeout=60)
