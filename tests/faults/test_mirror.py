"""What becomes of mirrors when commands are killed, services are away, and folders are foreign."""

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
    """A study of one's own."""
    with new_study(tmp_path / "a study", warm=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    """A study with a run that was mirrored."""
    with new_study(tmp_path_factory.mktemp("mirrored"), warm=True) as opened:
        code, output = opened.give("run", *WORDS, TENSORBOARD)
        assert code == 0, output
        yield opened


def points(study: StudyFolder) -> Counter[tuple[str, int]]:
    """How often each metric is there for each step, in all event files of runs."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return Counter(
        (value.tag, event.step)
        for path in (study.folder / "tensorboard" / "one").glob("ppo-*/*tfevents*")
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if not value.tag.startswith("_hparams_") and value.tag != "score"
    )


def recorded(study: StudyFolder) -> Counter[tuple[str, int]]:
    """The same as the journals of runs of one attempt say."""
    results = Counter[tuple[str, int]]()
    for path in (study.folder / "runs" / "one").glob("*/attempts/1/events.jsonl"):
        rows = rows_of(read_journal(path).events)
        results.update((name, row.step) for row in rows for name in row.metrics)
    return results


def mirrors(study: StudyFolder) -> list[int]:
    """The mirror processes that work for this study."""
    own = [
        p
        for p in study.processes()
        if "rlexp.app.tracking.mirror_process" in " ".join(p.cmdline())
    ]
    return [p.pid for p in own]


def test_a_mirrored_run_is_the_same_run(study: StudyFolder, mirrored: StudyFolder) -> None:
    """Every recorded point is in the mirror once, and the weights are those without one."""
    assert points(mirrored) == recorded(mirrored) != Counter()
    assert not mirrors(mirrored)
    code, output = study.give("run", *WORDS)
    assert code == 0, output
    (first,), (second,) = mirrored.events("one", "ended"), study.events("one", "ended")
    assert first["weights"] == second["weights"]


def test_a_killed_command_doubles_and_loses_nothing(study: StudyFolder) -> None:
    """Kill -9 at some moment, the same command again: each point once, and no mirror is left."""
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
def test_what_was_not_mirrored_is_by_the_printed_command(study: StudyFolder) -> None:
    """A service that cannot be reached costs no run; the command that it prints works later."""
    (study.folder / "tensorboard").write_text("a file where the folder should be")
    code, output = study.give("run", *WORDS, TENSORBOARD)
    assert code == 0, output
    printed = re.search(r"To push it later: rlexp (.*)", output)
    assert printed, output
    (study.folder / "tensorboard").unlink()
    code, output = study.give(*shlex.split(printed[1]))
    assert code == 0, output
    assert points(study) == recorded(study)
    before = {p: p.read_bytes() for p in (study.folder / "tensorboard").rglob("*tfevents*")}
    assert study.give(*shlex.split(printed[1]))[0] == 0
    assert before == {
        p: p.read_bytes() for p in (study.folder / "tensorboard").rglob("*tfevents*")
    }


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A server that takes connections and never answers; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_service_that_never_answers_holds_a_command_for_as_long_as_it_says(
    study: StudyFolder, black_hole: int
) -> None:
    """Two seconds here; the run has its score, and what is pending is said."""
    uri = f"tracker.mlflow.uri=http://127.0.0.1:{black_hole}"
    begun = time.monotonic()
    code, output = study.give(*("run", *WORDS, "tracker=[mlflow]", uri, "tracker.mlflow.wait=2"))
    assert code == 0, output
    ended = study.events("one", "ended")[0]["time"]
    assert time.monotonic() - begun < 60
    assert time.time() - ended < 2 + 3 + 10
    assert "mlflow" in output
    assert f"rlexp sync one 'tracker=[mlflow]' {uri}" in output


def test_a_required_service_that_is_away_stops_a_command_before_it_starts(
    study: StudyFolder,
) -> None:
    """With a code of its own, and no run is begun."""
    (study.folder / "tensorboard").write_text("a file where the folder should be")
    arguments = ("run", *WORDS, TENSORBOARD, "tracker.tensorboard.required=true")
    code, output = study.give(*arguments)
    assert code == 69, output
    assert "no run was started" in output
    assert not study.events("one", "started")


@long
def test_ctrl_c_twice_does_not_wait_for_a_service(study: StudyFolder, black_hole: int) -> None:
    """The second one ends the mirror, too."""
    uri = f"tracker.mlflow.uri=http://127.0.0.1:{black_hole}"
    arguments = [w for w in WORDS if "steps" not in w and "evaluation" not in w]
    command = study.start(
        *("run", *arguments, "budget.steps=2_000_000", "budget.evaluation_every=null"),
        *("tracker=[mlflow]", uri),
        "tracker.mlflow.wait=60",
    )
    wait_until(lambda: study.events("one", "started"))
    begun = time.monotonic()
    command.send_signal(signal.SIGINT)
    time.sleep(3.0)
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == 130
    assert time.monotonic() - begun < 20
    wait_until(lambda: not mirrors(study), 10.0)


def test_records_do_not_say_where_keys_are_sent(study: StudyFolder, mirrored: StudyFolder) -> None:
    """A foreign folder names a server: `rlexp sync` asks which one is meant, and connects to none."""
    shutil.copytree(mirrored.folder / "runs", study.folder / "runs")
    (location,) = (study.folder / "runs" / "one" / "trackers").glob("*/place.json")
    called = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        messages = {"schema": 1, "tracker": "mlflow", "place": f"http://127.0.0.1:{port}"}
        location.write_text(json.dumps(messages))
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
        (("run", TENSORBOARD, "tracker.tensorboard.weight=3"), "did you mean 'wait'?"),
        (("run", TENSORBOARD, "tracker.tensorboard.wait=-1"), "tracker.tensorboard.wait"),
        (("sync", "none"), "there is no experiment"),
        (("sync", "algorithm=ppo"), "overrides of trackers"),
        (("sync", "one", "tracker=[nothing]"), "there is no"),
    ],
)
def test_mistakes_are_one_line(
    study: StudyFolder, arguments: tuple[str, ...], message: str
) -> None:
    """They name what is allowed, and start nothing."""
    code, output = study.give(*arguments)
    assert code == 2, output
    assert message in output
    assert len(output.strip().splitlines()) == 1, output
