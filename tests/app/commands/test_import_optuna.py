"""Studies of Optuna are imported as sweeps to look at, without a test score."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import command_line
import optuna
import pytest
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from postgresql_server import PASSWORD, Server, binaries, running_server
from quick_parts import quick_parts
from sqlalchemy.pool import NullPool

from rlexp.errors import RlexpError

quick = pytest.fixture(autouse=True)(quick_parts)
VALUES = (10.0, 30.0, None, 20.0, 25.0)
"""Values of the trials; the one without a value fails."""
PRUNED = 4
WORDS = ("--experiment", "alpha", "--task", "CartPole-v1", "--steps-unit", "environment")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the workspace, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    return tmp_path


def give(*words: str) -> str:
    """Run a command that must succeed; returns its output."""
    return command_line.give(Path.cwd(), *words, code=0)


def refusal_of(*words: str) -> str:
    """The one-line error of a command that must be refused."""
    with pytest.raises(RlexpError) as error:
        give(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


def fill(
    storage: BaseStorage | str,
    name: str = "ppo",
    direction: Literal["maximize", "minimize"] = "maximize",
) -> None:
    """Write a study with complete trials, a failed, a pruned and an unfinished one."""
    study = optuna.create_study(storage=storage, study_name=name, direction=direction)
    space = {
        "lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True),
        "layers": optuna.distributions.IntDistribution(1, 4),
        "act": optuna.distributions.CategoricalDistribution(["tanh", "relu"]),
    }
    for number, value in enumerate(VALUES):
        trial = study.ask(space)
        for step in (1000, 2000):
            if number != 0 or step == 1000:
                trial.report(step / 100, step)
        if number == PRUNED:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
    study.ask(space)


@contextmanager
def database(url: str) -> Iterator[RDBStorage]:
    """Optuna's storage in a database, whose connections are closed at the end."""
    storage = RDBStorage(url, engine_kwargs={"poolclass": NullPool})
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.fixture(params=["journal", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The file of a study, as Optuna writes it."""
    if request.param == "journal":
        fill(JournalStorage(JournalFileBackend("study.log")))
        yield "study.log"
        return
    with database("sqlite:///study.db") as storage:
        fill(storage)
    yield "study.db"


def test_a_study_becomes_a_sweep_to_look_at(store: str) -> None:
    """Every reader shows the trials with their states and values, and none shows a result."""
    before = Path(store).read_bytes()
    output = give("import", store, *WORDS)
    assert "imported 5 runs from optuna" in output
    assert "Trials: 3 complete, 1 failed, 1 pruned." in output
    assert "objective value (maximize): trial 1 with 30.00: lr = " in output
    assert "there is no test score" in output
    assert "Not read: trial 5, RUNNING" in output
    assert before == Path(store).read_bytes()
    rows = json.loads(give("ls", "alpha", "--json"))["rows"]
    assert {"tuning"} == {row["phase"] for row in rows}
    assert 5 == len({(row["label"], row["parameters"]) for row in rows})
    assert [10.0, 20.0, 30.0] == sorted(row["score"] for row in rows if row["score"] is not None)
    assert {"completed", "failed", "pruned"} == {row["state"] for row in rows}
    for command in (("show", "alpha", "--full"), ("status", "alpha")):
        shown = give(*command)
        assert "imported: 5/5 trials (3 complete, 1 pruned, 1 failed)" in shown
        assert "best 30.00 (trial 1)" in shown
        assert "trial 4 pruned: at step 2,000, Optuna says PRUNED" in shown
        assert "trial 2 failed" in shown
        assert "seed" not in shown
        assert "default" not in shown
    give("report", "alpha", "--format", "md", "-o", "out")
    page = Path("out/report.md").read_text()
    assert "alpha is the search of another tool, which has no winner" in page
    assert "seeds of a configuration | not known" in page
    assert "different seeds by construction" not in page
    assert "Another tool made these trials" in page
    assert "5 of 5 attempts match the ledger" in give("verify", "alpha")


def test_the_values_of_trials_are_not_averaged(store: str) -> None:
    """The listing of experiments has no score of a study, and that of configurations one a trial."""
    give("import", store, *WORDS)
    (row,) = json.loads(give("ls", "--json"))["rows"]
    assert (None, None) == (row["estimate"], row["interval"])
    groups = json.loads(give("ls", "alpha", "--group", "--json"))["rows"]
    shown = {row["label"]: (row["n"], row["estimate"]) for row in groups}
    assert {
        "trial 0": (1, 10.0),
        "trial 1": (1, 30.0),
        "trial 2": (0, None),
        "trial 3": (1, 20.0),
        "trial 4": (0, None),
    } == shown


def test_the_document_names_the_best_trial(store: str) -> None:
    """The JSON document has the direction, the states and the best trial with its parameters."""
    search = json.loads(give("import", store, *WORDS, "--json"))["search"]
    assert ("ppo", "maximize", 1, 30.0) == tuple(
        search[key] for key in ("study", "direction", "best", "value")
    )
    assert {"complete": 3, "failed": 1, "pruned": 1} == search["trials"]
    assert {"lr", "layers", "act"} == set(search["parameters"])


def test_nothing_executes_an_imported_study(store: str) -> None:
    """Commands that would train or compare refuse the study in one line."""
    give("import", store, *WORDS)
    assert "imported from another tool" in refusal_of("sweep", "quick", "experiment=alpha")
    assert "imported from another tool" in refusal_of("run", "--from-sweep", "alpha")
    assert "imported from another tool" in refusal_of("resume", "alpha")
    assert "no test runs" in refusal_of("compare", "alpha")


def grow(store: str) -> None:
    """Add a complete trial to a study."""
    space: dict[str, optuna.distributions.BaseDistribution] = {
        "lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True)
    }
    with ExitStack() as stack:
        storage: BaseStorage = (
            JournalStorage(JournalFileBackend(store))
            if store.endswith(".log")
            else stack.enter_context(database(f"sqlite:///{store}"))
        )
        study = optuna.load_study(storage=storage, study_name="ppo")
        study.tell(study.ask(space), 5.0)


def test_the_same_study_again_changes_nothing(store: str) -> None:
    """A repeated import changes no file, and a study that has grown needs another name."""
    give("import", store, *WORDS)
    before = {p: p.read_bytes() for p in Path("runs").rglob("*") if p.is_file()}
    assert "nothing new" in give("import", store, *WORDS)
    grow(store)
    assert "holds other results" in refusal_of("import", store, *WORDS)
    assert before == {p: p.read_bytes() for p in Path("runs").rglob("*") if p.is_file()}


def test_what_is_minimised_stays_minimised() -> None:
    """The best trial of a study that minimises is the one with the lowest value."""
    fill(JournalStorage(JournalFileBackend("study.log")), direction="minimize")
    output = give("import", "study.log", *WORDS)
    assert "objective value (minimize): trial 0 with 10.00" in output
    assert "best 10.00 (trial 0)" in give("status", "alpha")


@pytest.mark.parametrize("named", [True, False])
def test_one_of_several_objectives_is_imported(named: bool) -> None:
    """Without `--metric`, and after an import, one line has the names of the objectives."""
    storage = JournalStorage(JournalFileBackend("study.log"))
    study = optuna.create_study(
        storage=storage, study_name="two", directions=["maximize", "minimize"]
    )
    for k in (1.0, 2.0):
        study.tell(study.ask({"lr": optuna.distributions.FloatDistribution(0.0, 1.0)}), (k, k + 5))
    first, second, shown = ("0", "1", "objective value 1")
    if named:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            study.set_metric_names(["reward", "cost"])
        first, second, shown = ("reward", "cost", "cost")
    words = ("import", "study.log", "--task", "t", "--steps", "500", "--experiment")
    refused = refusal_of(*words, "alpha")
    assert f"2 objectives: name one with --metric (there are: {first}, {second})" in refused
    output = give(*words, "alpha", "--metric", second)
    assert f"two has 2 objectives, and an import holds one of them: {shown}." in output
    assert f"choose it with --metric ({first}) and another name" in output
    assert f"Best of them by {shown} (minimize): trial 0 with 6.00" in output
    assert "Best of them" in give(*words, "beta", "--metric", first)
    assert "holds other results" in refusal_of(*words, "alpha", "--metric", first)


def test_equal_trials_keep_their_values() -> None:
    """Two trials with equal parameters and different values both stay."""
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend("study.log")))
    for value in (1.0, 2.0):
        study.enqueue_trial({"lr": 0.1})
        study.tell(study.ask({"lr": optuna.distributions.FloatDistribution(0.0, 1.0)}), value)
    output = give(
        *("import", "study.log", "--experiment", "alpha", "--task", "t", "--steps", "500")
    )
    assert "Trials: 2 complete." in output
    assert "imported: 2/2 trials (2 complete)" in give("status", "alpha")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--experiment", "alpha"), "give --task"),
        (("--experiment", "alpha", "--task", "t"), "give --steps-unit"),
        ((*WORDS, "--study", "pp"), "did you mean 'ppo'"),
        ((*WORDS, "--metric", "loss"), "there is no objective 'loss'"),
        ((*WORDS, "--label-from", "lr"), "the source is optuna: leave it out"),
        ((*WORDS, "--score", "auc"), "leave it out"),
    ],
)
def test_refusals(words: tuple[str, ...], message: str) -> None:
    """A wrong or missing option is refused in one line, and nothing is written."""
    fill(JournalStorage(JournalFileBackend("study.log")))
    assert message in refusal_of("import", "study.log", *words)
    assert not list(Path("runs").glob("*")) or not Path("runs/alpha").exists()


def test_steps_that_are_not_known() -> None:
    """Without intermediate values the steps of a trial must be given."""
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend("study.log")))
    study.tell(study.ask({"lr": optuna.distributions.FloatDistribution(0.0, 1.0)}), 5.0)
    words = ("import", "study.log", "--experiment", "alpha", "--task", "t")
    assert "give --steps N" in refusal_of(*words)


def test_several_studies_and_kinds() -> None:
    """One of several studies must be named, and a store is not taken for one of MLflow."""
    with database("sqlite:///study.db") as storage:
        for name in ("ppo", "sac"):
            fill(storage, name)
    refusal = refusal_of("import", "study.db", *WORDS)
    assert "it holds several studies: name one with --study (there are: ppo, sac)" in refusal
    assert "imported 5 runs" in give("import", "study.db", *WORDS, "--study", "sac")
    assert "it looks like optuna" in refusal_of("import", "mlflow", "study.db", *WORDS)


def test_damaged_stores() -> None:
    """A journal with a line that is no record is refused in one line."""
    fill(JournalStorage(JournalFileBackend("study.log")))
    path = Path("study.log")
    path.write_text(path.read_text() + "x\n" + '{"op_code": 99, "worker_id": "x"}\n')
    assert "Optuna cannot read it" in refusal_of("import", "study.log", *WORDS)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A running PostgreSQL server."""
    pytest.importorskip("psycopg")
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL: initdb and pg_ctl")
    with running_server(programs) as running:
        yield running


def test_a_study_in_postgresql(server: Server) -> None:
    """A study is read from a server, whose password stands in no output and no record."""
    server.empty()
    assert "has no studies of Optuna" in refusal_of("import", server.url, *WORDS)
    url = server.url.replace("postgresql://", "postgresql+psycopg://")
    with database(url) as storage:
        fill(storage)
    output = give("import", server.url, *WORDS)
    assert "imported 5 runs from optuna" in output
    assert "password" in refusal_of("import", server.url.replace("opensesame", "x"), *WORDS)
    texts = [output, *(p.read_text() for p in Path("runs").rglob("*.json*"))]
    for secret in (PASSWORD, "opensesame"):
        assert not any(secret in text for text in texts)
