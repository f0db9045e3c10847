"""Tracker mirrors after killed commands, without their services, and in foreign folders."""

import json
import re
import shlex
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until

from rlexp.store.journal import read_journal
from rlexp.trackers.metric_rows import rows_of

SHORT = ("budget.steps=1536", "budget.evaluation_every=512", "budget.final_episodes=2")
WORDS = (*SHORT, "algorithm.n_steps=64", "algorithm.n_epochs=1", "seeds.test=1", "experiment=one")
TENSORBOARD = "tracker=[tensorboard]"


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study in a folder with a space."""
    with new_study(tmp_path / "a study", warm=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    """A study with a run that was mirrored to TensorBoard."""
    with new_study(tmp_path_factory.mktemp("mirrored"), warm=True) as opened:
        code, output = opened.give("run", *WORDS, TENSORBOARD)
        assert code == 0, output
        yield opened


def points(study: StudyFolder) -> Counter[tuple[str, int]]:
    """How often each metric has a point at each step, in all event files of runs."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return Counter(
        (value.tag, event.step)
        for path in (study.folder / "tensorboard" / "one").glob("ppo */*tfevents*")
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if not value.tag.startswith("_hparams_") and value.tag != "score"
    )


def recorded_points(study: StudyFolder) -> Counter[tuple[str, int]]:
    """How often each metric has a point at each step, in the journals of first attempts."""
    counts = Counter[tuple[str, int]]()
    for path in (study.folder / "runs" / "one").glob("*/attempts/1/events.jsonl"):
        rows = rows_of(read_journal(path).events)
        counts.update((name, row.step) for row in rows for name in row.metrics)
    return counts


def mirrors(study: StudyFolder) -> list[int]:
    """The process ids of the mirrors of this study."""
    processes = [
        p for p in study.processes() if "rlexp.app.reporting.mirror_entry" in " ".join(p.cmdline())
    ]
    return [p.pid for p in processes]


def test_a_mirrored_run_is_the_same_run(study: StudyFolder, mirrored: StudyFolder) -> None:
    """A mirror holds every recorded point once, and a run without a mirror has the same weights."""
    assert points(mirrored) == recorded_points(mirrored) != Counter()
    assert not mirrors(mirrored)
    code, output = study.give("run", *WORDS)
    assert code == 0, output
    (first,), (second,) = mirrored.events("one", "ended"), study.events("one", "ended")
    assert first["weights"] == second["weights"]


def test_a_killed_command_doubles_and_loses_nothing(study: StudyFolder) -> None:
    """After kill -9 and a repeat the mirror holds each point once, and no mirror process lives."""
    command = study.start("run", *WORDS, TENSORBOARD)
    wait_until(lambda: study.events("one", "evaluated"))
    # The mirror has begun to write.
    wait_until(lambda: any((study.folder / "tensorboard").rglob("*tfevents*")))
    command.kill()
    command.wait()
    code, output = study.give("run", *WORDS, TENSORBOARD)
    assert code == 0, output
    assert set(points(study).values()) == {1}
    evaluations = {step for name, step in points(study) if name == "eval/mean_reward"}
    assert evaluations == {e["step"] for e in study.events("one", "evaluated") if not e["final"]}
    assert "in use" not in output
    wait_until(lambda: not mirrors(study), 15.0)


@long
def test_the_printed_command_mirrors_a_run_later(study: StudyFolder) -> None:
    """A run completes without its service, and the printed command mirrors it later."""
    (study.folder / "tensorboard").write_text("a file where the folder should be")
    code, output = study.give("run", *WORDS, TENSORBOARD)
    assert code == 0, output
    printed = re.search(r"To push it later: rlexp (.*)", output)
    assert printed, output
    (study.folder / "tensorboard").unlink()
    code, output = study.give(*shlex.split(printed[1]))
    assert code == 0, output
    assert points(study) == recorded_points(study)
    before = {p: p.read_bytes() for p in (study.folder / "tensorboard").rglob("*tfevents*")}
    assert study.give(*shlex.split(printed[1]))[0] == 0
    assert before == {
        p: p.read_bytes() for p in (study.folder / "tensorboard").rglob("*tfevents*")
    }


@pytest.fixture
def black_hole() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_service_that_never_answers_holds_a_command_for_as_long_as_it_says(
    study: StudyFolder, black_hole: int
) -> None:
    """A service that never answers delays a command only for the seconds of its `wait` setting."""
    uri = f"tracker.mlflow.uri=http://127.0.0.1:{black_hole}"
    start = time.monotonic()
    code, output = study.give(*("run", *WORDS, "tracker=[mlflow]", uri, "tracker.mlflow.wait=2"))
    assert code == 0, output
    ended = study.events("one", "ended")[0]["time"]
    assert time.monotonic() - start < 60
    assert time.time() - ended < 2 + 3 + 10
    assert "mlflow" in output
    assert f"rlexp sync one 'tracker=[mlflow]' {uri}" in output


def test_a_required_service_that_is_away_stops_a_command_before_it_starts(
    study: StudyFolder,
) -> None:
    """Without its required service a command ends with code 69 and begins no run."""
    (study.folder / "tensorboard").write_text("a file where the folder should be")
    arguments = ("run", *WORDS, TENSORBOARD, "tracker.tensorboard.required=true")
    code, output = study.give(*arguments)
    assert code == 69, output
    assert "no run was started" in output
    assert not study.events("one", "started")


@long
def test_ctrl_c_twice_does_not_wait_for_a_service(study: StudyFolder, black_hole: int) -> None:
    """A second Ctrl-C ends the command and its mirror without waiting for the service."""
    uri = f"tracker.mlflow.uri=http://127.0.0.1:{black_hole}"
    arguments = [w for w in WORDS if "steps" not in w and "evaluation" not in w]
    command = study.start(
        *("run", *arguments, "budget.steps=2_000_000", "budget.evaluation_every=null"),
        *("tracker=[mlflow]", uri),
        "tracker.mlflow.wait=60",
    )
    wait_until(lambda: study.events("one", "started"))
    start = time.monotonic()
    command.send_signal(signal.SIGINT)
    time.sleep(3.0)
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == 130
    assert time.monotonic() - start < 20
    wait_until(lambda: not mirrors(study), 10.0)


def test_records_do_not_say_where_keys_are_sent(study: StudyFolder, mirrored: StudyFolder) -> None:
    """`rlexp sync` does not connect to a server that only the records of a study name."""
    shutil.copytree(mirrored.folder / "runs", study.folder / "runs")
    (location,) = (study.folder / "runs" / "one" / "trackers").glob("*/place.json")
    called = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        document = {"schema": 1, "tracker": "mlflow", "place": f"http://127.0.0.1:{port}"}
        location.write_text(json.dumps(document))
        code, output = study.give("sync", "one")
        try:
            server.accept()
            called.set()
        except TimeoutError:
            pass
    assert code == 2, output
    assert "name the tracker and its settings" in output
    assert not called.is_set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "tracker=wandb,mlflow"),
            "several trackers must be a list: write tracker=[wandb,mlflow]",
        ),
        (("run", "tracker=[tensorbord]"), "did you mean 'tensorboard'?"),
        (
            ("run", TENSORBOARD, "tracker.tensorboard.weight=3"),
            "did you mean 'tracker.tensorboard.wait=3'?",
        ),
        (("run", TENSORBOARD, "tracker.tensorboard.wait=-1"), "tracker.tensorboard.wait"),
        (("sync", "none"), "there is no experiment"),
        (("sync", "algorithm=ppo"), "overrides of trackers"),
        (("sync", "one", "tracker=[nothing]"), "there is no"),
    ],
)
def test_mistakes_are_one_line(
    study: StudyFolder, arguments: tuple[str, ...], message: str
) -> None:
    """A mistake in tracker settings is one line that names what is allowed."""
    code, output = study.give(*arguments)
    assert code == 2, output
    assert message in output
    assert len(output.strip().splitlines()) == 1, output
