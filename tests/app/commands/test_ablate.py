"""An ablation says which of the changes between two configurations did it."""

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, failed
from stored_sweeps import StoredSweep, finished_sweep, stored_sweep

from rlexp.app.bundling.record_files import record_files
from rlexp.app.commands.judge.ablate import (
    AblateRequest,
    AblationOutcome,
    AblationOutline,
    ablate,
)
from rlexp.app.execution.launch_settings import LaunchOptions
from rlexp.app.observer import SilentObserver
from rlexp.app.reading.experiment_scan import survey
from rlexp.app.reading.integrity import examine
from rlexp.app.workspace import Workspace
from rlexp.cli.judge.ablate import show_ablation
from rlexp.cli.train.resume import execute
from rlexp.console import Console
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.ablation import Ablation
from rlexp.store.files import read_json
from rlexp.store.layout import Layout
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)

Score = Callable[[Configuration, RunSpec], float | None]
REQUEST = AblateRequest(
    arguments=("made_up",), group=4, max_seeds=12, command=("rlexp", "ablate", "made_up")
)


def by_learning_rate(configuration: Configuration, spec: RunSpec) -> float:
    """A score that only the learning rate changes, beside the noise of the seed."""
    return 100.0 * bool(configuration.algorithm["learning_rate"] > 1e-3) + spec.seed * 7 % 5


def together(configuration: Configuration, spec: RunSpec) -> float:
    """A score that rises only if learning rate and epochs are both changed."""
    rate = bool(configuration.algorithm["learning_rate"] > 1e-3)
    epochs = bool(configuration.algorithm["n_epochs"] > 10)
    return 100.0 * (rate and epochs) + spec.seed * 7 % 5


@pytest.fixture
def sweep(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> StoredSweep:
    """A finished sweep of two parameters, with a separate cache of run speeds."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return finished_sweep(tmp_path / "study", tmp_path_factory)


@pytest.fixture(autouse=True)
def spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment is examined: the scores are made up."""
    name = "rlexp.app.commands.judge.sequential_launch.check_compatibility"
    monkeypatch.setattr(name, lambda *_: None)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Training without delay; each run ends with the score of its configuration.

    `score` may be replaced. `limit` is the number of runs after which the command is interrupted.
    """
    training: dict[str, Any] = {"score": by_learning_rate, "runs": [], "limit": None}

    def train(paths: Any, phase: Phase, plan: Plan, *_: object) -> signal.Signals | None:
        experiment = read_experiment(paths)
        for configured, spec in experiment.specs(phase):
            if spec in plan.missing:
                if training["limit"] == 0:
                    return signal.SIGINT
                training["limit"] = training["limit"] and training["limit"] - 1
                training["runs"].append((configured.label, spec.seed))
                score = training["score"](configured, spec)
                store = Stored(paths, experiment)
                if score is None:
                    store.attempt(spec.seed, failed(), label=configured.label)
                else:
                    store.complete(spec.seed, score, label=configured.label)
        return None

    monkeypatch.setattr("rlexp.app.execution.launch.execute_missing_runs", train)
    return training


def ablated(study: Workspace, request: AblateRequest = REQUEST) -> AblationOutcome:
    """The outcome of an ablation."""
    outcome = ablate(request, study, SilentObserver())
    assert isinstance(outcome, AblationOutcome)
    return outcome


def outlined(study: Workspace, request: AblateRequest = REQUEST) -> AblationOutline:
    """The plan of an ablation."""
    outline = ablate(replace(request, dry_run=True), study, SilentObserver())
    assert isinstance(outline, AblationOutline)
    return outline


def shown(result: AblationOutcome | AblationOutline, capsys: Any, *, full: bool = False) -> str:
    """What the command prints, on one line."""
    show_ablation(result, Console(), full=full)
    return " ".join(capsys.readouterr().out.split())


def test_the_change_that_did_it_is_named(
    sweep: StoredSweep, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The parameter on which the score depends is decided in place and alone, the other is not."""
    outcome = ablated(sweep.study)
    changes = {c.name: c for c in outcome.effects.changes}
    decisions = {
        name: (c.left_out and c.left_out.decision, c.added and c.added.decision)
        for name, c in changes.items()
    }
    assert {"learning_rate": ("better", "better"), "n_epochs": ("equal", "equal")} == decisions
    assert "better" == outcome.effects.total.decision
    rate = changes["learning_rate"]
    assert [*rate.old.values()] == [3e-4]
    assert rate.left_out is not None
    assert rate.left_out.difference is not None
    interval = rate.left_out.difference
    assert interval.low is not None
    assert interval.high is not None
    assert 0 < interval.low < 100.0 == interval.estimate < interval.high
    assert (interval.n, interval.seed) == (2 * 4 * (rate.left_out.look or 0), 0)
    text = shown(outcome, capsys)
    assert text.startswith(
        "learning_rate did it: without learning_rate the mean score falls by 100"
    )
    assert "n_epochs" in text


def test_decisions_and_intervals_agree(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """An interval excludes 0 exactly where the two labels were told apart."""

    def mixed(configuration: Configuration, spec: RunSpec) -> float:
        rate = bool(configuration.algorithm["learning_rate"] > 1e-3)
        return (9.0 if rate else 0.0) + spec.seed * 7 % 11 + (spec.seed * 5 % 7) * rate

    trained["score"] = mixed
    outcome = ablated(sweep.study, replace(REQUEST, max_seeds=20))
    for effect in outcome.effects.effects:
        interval = effect.difference
        assert interval is not None
        excludes = interval.low is not None and (interval.low > 0 or (interval.high or 0) < 0)
        assert excludes == effect.is_decided, effect


def test_changes_that_help_only_together_are_shown(
    sweep: StoredSweep, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only both changes together help, each is needed, and none helps alone."""
    trained["score"] = together
    outcome = ablated(sweep.study)
    for change in outcome.effects.changes:
        assert change.interaction == (
            "helps together with the other changes; no effect alone was found"
        )
    assert "and n_epochs did it" in outcome.answer.replace("n_epochs and learning_rate", "x")
    assert "no effect alone was found" in shown(outcome, capsys)


def test_the_seeds_were_not_used_before(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """All configurations, winner and default too, are trained on seeds of another root."""
    outcome = ablated(sweep.study)
    paths = sweep.study.layout.experiment("made_up-ablation")
    experiment, of_sweep = read_experiment(paths), read_experiment(sweep.paths)
    assert outcome.root == experiment.seeds.root != of_sweep.seeds.root
    assert {"tuned", "default"} <= {label for label, _ in trained["runs"]}
    specs = {spec.id for _, spec in experiment.specs(Phase.TEST)}
    assert not specs & {spec.id for _, spec in of_sweep.specs(Phase.TEST)}
    with pytest.raises(ConfigError, match=r"leave out seeds.root=0"):
        ablated(sweep.study, replace(REQUEST, arguments=("made_up", "seeds.root=0")))


def test_undecided_changes_get_further_seeds_only(
    sweep: StoredSweep, trained: dict[str, Any]
) -> None:
    """Configurations whose comparisons are decided get no further seeds."""
    outcome = ablated(sweep.study)
    assert outcome.runs == outcome.trained == len(trained["runs"]) <= outcome.most_runs
    assert outcome.effects.finished


@pytest.mark.parametrize("limit", [1, 9])
def test_an_interrupted_ablation_continues_with_the_same_numbers(
    sweep: StoredSweep, trained: dict[str, Any], limit: int
) -> None:
    """After an interruption at any run, the printed command ends with the same numbers."""
    whole = ablated(sweep.study)
    other = Workspace(sweep.study.folder, Layout(sweep.study.folder / "other"))
    other.layout.root.mkdir()
    (sweep.paths.folder).rename(other.layout.experiment("made_up").folder)
    trained |= {"limit": limit}
    stopped = ablated(other)
    assert ("SIGINT", False) == (stopped.interrupted, stopped.effects.finished)
    assert "rlexp ablate made_up" == stopped.next[0].command
    trained |= {"limit": None}
    again = ablated(other)
    assert (whole.effects, whole.answer, whole.root) == (again.effects, again.answer, again.root)
    trained["runs"].clear()
    assert again == ablated(other)
    assert [] == trained["runs"]


def test_what_is_compared_is_frozen(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """Another design or other changes are refused; --restart keeps the old design on record."""
    ablated(sweep.study)
    with pytest.raises(RecordError, match="was frozen at its first interim"):
        ablated(sweep.study, replace(REQUEST, alpha=0.2))
    with pytest.raises(RecordError, match="is another ablation"):
        ablated(
            sweep.study,
            replace(
                REQUEST,
                arguments=("made_up/tuned", "algorithm.gamma=0.5", "experiment=made_up-ablation"),
            ),
        )
    ablated(sweep.study, replace(REQUEST, alpha=0.2, restart=True))
    paths = sweep.study.layout.experiment("made_up-ablation")
    assert [0.05] == [e["design"]["alpha"] for e in read_json(paths.adaptive)["earlier"]]
    assert Ablation.from_plain(read_json(paths.ablation)).kind == "each"


def test_the_files_are_sealed(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """`rlexp verify` accepts an ablation, and names its file when it was changed."""
    ablated(sweep.study)
    paths = sweep.study.layout.experiment("made_up-ablation")
    # The journals of the made-up runs are equal, and in no ledger: only the file counts here.
    assert "ablation.json" not in str(examine(survey(paths)).findings)
    assert "ablation.json" in record_files(paths, models=False).bundled
    content = paths.ablation.read_text()
    paths.ablation.write_text(content.replace("n_epochs", "n_epoch"))
    assert "ablation.json" in str(examine(survey(paths)).findings)


def test_a_failed_run_is_named(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """A run without a score stops the ablation with its name; --retry repeats it."""

    def failing(configuration: Configuration, spec: RunSpec) -> float | None:
        lost = configuration.label == "tuned" and spec.seed == 1
        return None if lost else by_learning_rate(configuration, spec)

    trained["score"] = failing
    with pytest.raises(RecordError, match=r"ended without a score .*tuned|add --retry"):
        ablated(sweep.study)
    trained["score"] = by_learning_rate
    assert ablated(sweep.study, replace(REQUEST, retry=True)).effects.finished


def test_the_plan_starts_nothing(
    sweep: StoredSweep, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run lists the changes and configurations, and leaves no folder."""
    text = shown(outlined(sweep.study), capsys)
    assert "learning_rate: 3e-4 → " in text
    assert "2 changes, each left out, and each added alone: 5 comparisons" in text
    assert "at most 48 runs in total" in text
    # The seeds of one interim analysis are not all that the test may use.
    assert "cannot decide" not in text
    assert not sweep.study.layout.experiment("made_up-ablation").folder.exists()
    assert [] == trained["runs"]


def test_the_plan_of_a_single_change_has_one_comparison(
    sweep: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaving the only change out and adding it are the same comparison, which is named once."""
    words = ("made_up/default", "algorithm.learning_rate=0.02", "experiment=rate")
    text = shown(outlined(sweep.study, replace(REQUEST, arguments=words)), capsys)
    assert text.startswith("1 change: 1 comparison learning_rate: ")


def test_a_finished_ablation_is_not_continued(
    sweep: StoredSweep, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """`rlexp resume` prints the command of an unfinished ablation, and none of a finished one."""

    def resumed() -> str:
        name = "made_up-ablation"
        execute([name], LaunchOptions(), sweep.study, Console(), full=False)
        return " ".join(capsys.readouterr().out.split())

    trained["limit"] = 1
    ablated(sweep.study)
    trained["limit"] = None
    assert "To continue the ablation made_up-ablation: rlexp ablate made_up" in resumed()
    ablated(sweep.study)
    assert "To continue the ablation" not in resumed()


def test_a_path_follows_the_importance_of_tuning(
    tmp_path: Path, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path adds the most important parameter of the tuning trials first."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    swept = stored_sweep(tmp_path, "sweep.trials=24")
    swept.go_on()
    outcome = ablated(swept.study, replace(REQUEST, path=True))
    first, second = outcome.effects.changes
    assert first.name == "n_epochs"
    assert (first.importance or 0) > (second.importance or 0)
    assert first.step is not None
    assert second.step is not None
    assert ("default", first.step.first) == (first.step.second, second.step.second)
    assert second.step.first == "tuned"
    assert ("equal", "better") == (first.step.decision, second.step.decision)
    assert "PED-ANOVA of the tuning trials of made_up" in str(outcome.effects.order)
    assert outcome.answer.startswith(
        "learning_rate did it: with learning_rate the mean score rises"
    )
    # The frozen form stays without the option.
    assert ablated(swept.study).effects == outcome.effects


def test_a_path_needs_an_order(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """A sweep with few trials has no importance, so that a path is refused in one line."""
    with pytest.raises(ConfigError, match=r"--path needs an order: .*too few"):
        ablated(sweep.study, replace(REQUEST, path=True))


def test_two_labels_are_ablated(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """Two recorded configurations are ablated like the default and the winner of a sweep."""
    targets = ("made_up/default", "made_up/tuned")
    outcome = ablated(sweep.study, replace(REQUEST, arguments=(*targets, "experiment=pair")))
    assert "pair" == outcome.experiment
    assert {"learning_rate", "n_epochs"} == {c.name for c in outcome.effects.changes}
    assert outcome.answer.startswith("learning_rate did it")


def test_words_change_a_configuration(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """Words after a configuration are the changes; one change is the whole difference."""
    words = ("made_up/default", "algorithm.learning_rate=0.02", "experiment=rate")
    outcome = ablated(sweep.study, replace(REQUEST, arguments=words))
    (change,) = outcome.effects.changes
    assert change.left_out == change.added == outcome.effects.total
    assert 1 == outcome.effects.contrasts
    assert outcome.answer.startswith(
        "learning_rate did it: without it the mean score falls by 100"
    )


def test_words_with_two_values_are_two_configurations(
    sweep: StoredSweep, trained: dict[str, Any]
) -> None:
    """Words with two values name both configurations, without any experiment."""
    words = (
        *("algorithm=ppo", "environment=cartpole", "budget.steps=100", "algorithm.n_steps=64"),
        *("algorithm.learning_rate=1e-4,1e-2", "algorithm.gamma=0.9,0.99"),
    )
    outline = outlined(sweep.study, replace(REQUEST, arguments=words))
    assert ("changed", "base") == outline.labels[:2]
    assert ["learning_rate", "gamma"] == [c.name for c in outline.changes]


REFUSED: dict[str, tuple[Sequence[str], str]] = {
    "nothing": (("algorithm.gamma=0.9",), "no word has two values"),
    "unknown": (("made_down",), "made_down"),
    "label": (("made_up/tund", "made_up/default"), "has no label 'tund'.*tuned"),
    "same": (("made_up/tuned", "made_up/tuned"), "nothing differs"),
    "three": (("made_up", "made_up", "made_up"), "it got 3 targets"),
    "several": (("made_up", "made_up/tuned"), "2 configurations.*made_up/tuned"),
    "budget": (("made_up/tuned", "budget.steps=200"), "differ in budget.steps"),
    "task": (("made_up/tuned", "environment=acrobot"), "compares configurations on one task"),
    "seeds": (("made_up", "seeds.test=9"), "--max-seeds"),
    "name": (("made_up", "experiment=made_up"), "is another experiment"),
    "phase": (("made_up", "phase=tuning"), "test seeds only"),
    "typo": (("made_up/tuned", "algorithm.gama=0.5"), "gama"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_one_line(sweep: StoredSweep, trained: dict[str, Any], case: str) -> None:
    """A wrong target or word is refused on one line, and nothing is trained."""
    arguments, text = REFUSED[case]
    with pytest.raises(RlexpError, match=f"(?s){text}") as caught:
        ablated(sweep.study, replace(REQUEST, arguments=tuple(arguments)))
    assert "\n" not in str(caught.value)
    assert [] == trained["runs"]
    assert ["made_up"] == [p.name for p in sweep.study.layout.root.iterdir() if p.is_dir()]


def test_groups_must_fill_the_seeds(sweep: StoredSweep) -> None:
    """Seeds that are no multiple of the group, and groups that decide nothing, are refused."""
    with pytest.raises(ConfigError, match="try --max-seeds 16"):
        ablated(sweep.study, replace(REQUEST, max_seeds=13))
    with pytest.raises(ConfigError, match="cannot decide any pair") as caught:
        ablated(sweep.study, replace(REQUEST, group=2, max_seeds=2))
    assert "1 interim analysis with 2 seeds" in str(caught.value)
    assert str(caught.value).endswith("use --max-seeds 6 or --group 5 --max-seeds 5, or more")
    for group, seeds in ((2, 6), (5, 5)):
        outlined(sweep.study, replace(REQUEST, group=group, max_seeds=seeds))
    for group, seeds in ((2, 4), (4, 4)):
        with pytest.raises(ConfigError, match="cannot decide any pair"):
            outlined(sweep.study, replace(REQUEST, group=group, max_seeds=seeds))
    with pytest.raises(ConfigError, match="there is no family 'hol'"):
        ablated(sweep.study, replace(REQUEST, family="hol"))


def test_a_sweep_without_a_winner_is_refused(tmp_path: Path, trained: dict[str, Any]) -> None:
    """A sweep that is not finished has nothing to ablate; the message has the command."""
    swept = stored_sweep(tmp_path)
    swept.go_on(runs=5)
    with pytest.raises(RecordError, match=r"has not selected a winner yet.*rlexp resume made_up"):
        ablated(swept.study)


def test_a_sweep_that_the_default_won_is_refused(tmp_path: Path, trained: dict[str, Any]) -> None:
    """Where the default won, nothing differs."""
    swept = stored_sweep(tmp_path, score=lambda spec: -abs(spec.algorithm["n_epochs"] - 10.0))
    swept.go_on()
    with pytest.raises(RecordError, match="the default configuration won made_up"):
        ablated(swept.study)


def test_the_document_is_json(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """The JSON document holds the effects with n, method and seed of each interval."""
    from rlexp.app.results import document

    content = json.loads(json.dumps(document(ablated(sweep.study))))
    assert {"name": "ablation", "version": 1} == content["schema"]
    for change in content["effects"]["changes"]:
        interval = change["left_out"]["difference"]
        assert {"n", "method", "seed", "level", "low", "high"} <= set(interval)


def test_other_commands_leave_its_tests_alone(sweep: StoredSweep, trained: dict[str, Any]) -> None:
    """`rlexp compare --adaptive` refuses an ablation, with the command that continues it."""
    from rlexp.app.commands.judge.compare_adaptive import AdaptiveRequest, compare_adaptively

    ablated(sweep.study)
    request = AdaptiveRequest(targets=("made_up-ablation",), command=("rlexp",))
    with pytest.raises(RecordError, match=r"is an ablation.*rlexp ablate made_up"):
        compare_adaptively(request, sweep.study, SilentObserver())


def test_a_bundle_holds_what_an_ablation_compares(
    sweep: StoredSweep, trained: dict[str, Any]
) -> None:
    """The file of the ablation is bundled: the ledger names it, and its report needs it."""
    ablated(sweep.study)
    paths = sweep.study.layout.experiment("made_up-ablation")
    assert paths.ablation.name in record_files(paths, models=False).bundled
