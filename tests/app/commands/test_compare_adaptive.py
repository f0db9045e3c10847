"""A sequential comparison adds seeds only for undecided pairs, with one frozen design."""

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, configuration, failed, stored

from rlexp.app.commands.judge.compare import CompareRequest, compare
from rlexp.app.commands.judge.compare_adaptive import AdaptiveRequest
from rlexp.app.commands.judge.compare_adaptive import compare_adaptively as rehearse
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.observer import SilentObserver
from rlexp.app.workspace import Workspace
from rlexp.cli.judge.compare import compare_adaptively
from rlexp.console import Console
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import Layout
from rlexp.store.runs import read_experiment
from rlexp.trackers import viewing

quick = pytest.fixture(autouse=True)(quick_parts)

PPO, A2C, DQN = (configuration(label) for label in ("ppo", "a2c", "dqn"))
QUICK = ("repetitions=2000",)
REQUEST = AdaptiveRequest(
    targets=("alpha",),
    group=4,
    interims=4,
    overrides=QUICK,
    command=("rlexp", "compare", "alpha"),
)
Scores = Callable[[str, int], float]


def far_apart(label: str, seed: int) -> float:
    """A score; those of dqn are far below those of the other labels, which are similar."""
    return (0.0 if label == "dqn" else 100.0) + (seed * 7 % 5) + (label == "ppo") * 0.1


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace with a separate cache of run speeds."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return Workspace(tmp_path, Layout(tmp_path / "runs"))


@pytest.fixture(autouse=True)
def spaces(monkeypatch: pytest.MonkeyPatch) -> dict[str, EnvironmentSpaces]:
    """Spaces of tasks, by label; the plug-ins of stored configurations are not built."""
    by_label: dict[str, EnvironmentSpaces] = {}

    def examine(
        configurations: Sequence[Configuration], _: Workspace, into: dict[str, EnvironmentSpaces]
    ) -> None:
        for configured in configurations:
            if configured.label in by_label:
                into[canonical(configured.environment)] = by_label[configured.label]

    monkeypatch.setattr("rlexp.app.commands.judge.sequential_launch.check_compatibility", examine)
    return by_label


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Training without delay; each run ends with a score that depends on its label and seed.

    `score` may be replaced. `runs` has the trained seeds by label. `limit` is the number of runs
    after which the command is interrupted.
    """
    training: dict[str, Any] = {"score": far_apart, "runs": {}, "limit": None}

    def train(paths: Any, phase: Phase, plan: Plan, *_: object) -> signal.Signals | None:
        experiment = read_experiment(paths)
        for configured, spec in experiment.specs(phase):
            if spec in plan.missing:
                if training["limit"] == 0:
                    return signal.SIGINT
                training["limit"] = training["limit"] and training["limit"] - 1
                label = configured.label
                training["runs"].setdefault(label, []).append(spec.seed)
                score = training["score"](label, spec.seed)
                Stored(paths, experiment).complete(spec.seed, score, label=label)
        return None

    monkeypatch.setattr("rlexp.app.execution.launch.execute_missing_runs", train)
    return training


def document(
    empty_workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    request: AdaptiveRequest = REQUEST,
) -> Any:
    """The JSON document of the command."""
    import json

    assert compare_adaptively(request, empty_workspace, Console(as_json=True)) == 0
    return json.loads(capsys.readouterr().out)


def test_seeds_are_spent_on_undecided_pairs_only(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A label far below the others is decided early and gets no further seeds."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, DQN, test=1)
    comparison = document(empty_workspace, capsys)
    decisions = {
        (p["first"], p["second"]): (p["decision"], p["look"]) for p in comparison["pairs"]
    }
    assert {"ppo": 16, "a2c": 16} == {
        label: len(seeds) for label, seeds in trained["runs"].items() if label != "dqn"
    }
    assert ("equal", 4) == decisions["ppo", "a2c"]
    assert "better" == decisions["ppo", "dqn"][0] == decisions["a2c", "dqn"][0]
    last_look = max(decisions["ppo", "dqn"][1], decisions["a2c", "dqn"][1])
    assert last_look < 4
    assert list(range(4 * last_look)) == trained["runs"]["dqn"]
    assert (
        comparison["fixed_design"] - comparison["runs"]
        == comparison["saved"]
        == 16 - 4 * last_look
    )
    planned = [c.label for c, _ in read_experiment(experiment.paths).specs(Phase.TEST)]
    assert {"ppo": 16, "a2c": 16, "dqn": 4 * last_look} == {
        k: planned.count(k) for k in set(planned)
    }


def test_runs_in_two_groups_have_a_warning(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The decision on a label whose runs fall into two groups has a warning, other pairs none."""

    def with_failures(label: str, seed: int) -> float:
        return 20.0 + seed % 3 if label == "dqn" and seed % 4 == 1 else 500.0 + seed * 7 % 5

    trained["score"] = with_failures
    stored(empty_workspace.layout, "alpha", PPO, A2C, DQN, test=1)
    warnings = {
        (p["first"], p["second"]): p["warning"] for p in document(empty_workspace, capsys)["pairs"]
    }
    assert warnings["ppo", "a2c"] is None
    assert warnings["ppo", "dqn"].startswith("The runs of dqn fall into two groups")
    assert "about 20 % of cases, not in 5 %" in warnings["ppo", "dqn"]
    assert compare_adaptively(REQUEST, empty_workspace, Console()) == 0
    lines = " ".join(capsys.readouterr().out.split())
    assert lines.count("Warning: The runs of dqn fall into two groups") == 2


def test_existing_runs_are_used(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Existing runs are used, and a repeated comparison trains no run."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    for label in ("ppo", "a2c"):
        for seed in range(2):
            experiment.complete(seed, far_apart(label, seed), label=label)
    first = document(empty_workspace, capsys)
    assert [2, 3] == trained["runs"]["ppo"][:2]
    trained["runs"].clear()
    assert first == document(empty_workspace, capsys)
    assert {} == trained["runs"]


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_an_interrupted_comparison_can_be_continued(
    empty_workspace: Workspace,
    trained: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    limit: int,
) -> None:
    """After an interruption at any run, the printed command continues with the same result."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, DQN, test=1)
    uninterrupted = document(empty_workspace, capsys)
    records = read_json(empty_workspace.layout.experiment("alpha").adaptive)
    other = Workspace(empty_workspace.folder, Layout(empty_workspace.folder / "other"))
    stored(other.layout, "alpha", PPO, A2C, DQN, test=1)
    trained |= {"limit": limit}
    assert compare_adaptively(REQUEST, other, Console()) == 130
    assert "To continue: rlexp compare alpha\n" in capsys.readouterr().out
    trained |= {"limit": None}
    assert uninterrupted == document(other, capsys)
    assert records == read_json(other.layout.experiment("alpha").adaptive)


def test_the_design_is_frozen_at_the_first_interim_analysis(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another design is refused; --restart accepts it and keeps the old design on record."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    document(empty_workspace, capsys)
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK)
    with pytest.raises(RecordError, match="frozen at its first interim analysis"):
        compare_adaptively(other, empty_workspace, Console())
    restarted = AdaptiveRequest(
        targets=("alpha",), group=8, interims=4, restart=True, overrides=QUICK
    )
    for _ in range(2):
        assert compare_adaptively(restarted, empty_workspace, Console()) == 0
        assert "earlier designs that looked at these scores: 1" in capsys.readouterr().err
    stored_design = read_json(empty_workspace.layout.experiment("alpha").adaptive)
    assert (8, [4]) == (
        stored_design["design"]["group"],
        [e["design"]["group"] for e in stored_design["earlier"]],
    )


def test_a_score_that_changed_after_an_interim_analysis_is_refused(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed score is refused, because an interim analysis would decide on other numbers."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    document(empty_workspace, capsys)
    (journal,) = [a.journal for a in experiment.run(0).attempts()]
    journal.write_text(journal.read_text().replace("99.1", "299.1"))
    with pytest.raises(
        RecordError, match="interim analysis 1 at alpha gave other decisions before"
    ):
        compare_adaptively(REQUEST, empty_workspace, Console())


def test_a_dry_run_starts_nothing(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run shows the runs of the next interim analysis, trains none and writes no design."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=4, interims=4, dry_run=True)
    assert compare_adaptively(rehearsal, empty_workspace, Console()) == 0
    assert "8 runs × 100 environment steps" in (output := capsys.readouterr().out)
    assert "Interim analysis 1 of 4: ppo, a2c; at most 32 runs in total" in output
    assert not experiment.paths.adaptive.exists()
    assert {} == trained["runs"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"targets": ("alpha/ppo",)}, "a comparison needs two labels"),
        ({"targets": ("alpha", "beta")}, "so all labels must belong to it"),
        ({"group": 2, "interims": 1}, "cannot decide any pair at alpha=0.05"),
        ({"family": "holms"}, "there is no family 'holms'; did you mean 'holm'"),
    ],
)
def test_targets_that_cannot_be_compared_are_refused(
    empty_workspace: Workspace, settings: dict[str, Any], expected: str
) -> None:
    """Targets or options that give no comparison are refused, and no design is written."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(ConfigError, match=expected):
        compare_adaptively(
            AdaptiveRequest(**{"targets": ("alpha",), **settings}), empty_workspace, Console()
        )
    assert not experiment.paths.adaptive.exists()


def test_scores_before_the_design_cause_a_warning(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores that existed before the design cause a warning, because they may have shaped it."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    experiment.complete(0, 100.0)
    assert compare_adaptively(REQUEST, empty_workspace, Console()) == 0
    assert "Warning: 1 score existed when the design was frozen" in capsys.readouterr().err
    assert 1 == read_json(experiment.paths.adaptive)["scores"]


def test_a_dry_run_of_another_design_shows_no_decision(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run shows no decision, because users could otherwise try designs until one decides."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, DQN, test=8)
    for label in ("ppo", "dqn"):
        for seed in range(8):
            experiment.complete(seed, far_apart(label, seed), label=label)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=8, interims=1, dry_run=True)
    assert compare_adaptively(rehearsal, empty_workspace, Console()) == 0
    assert "Nothing to run" in (output := capsys.readouterr().out)
    assert "better" not in output


@pytest.mark.parametrize(("factor", "same"), [(1 + 1e-12, True), (1 + 1e-3, False)])
def test_rounding_differences_between_processors_are_accepted(
    empty_workspace: Workspace, trained: dict[str, Any], factor: float, same: bool
) -> None:
    """An interim analysis counts as the same if its numbers differ only by rounding."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(REQUEST, empty_workspace, Console()) == 0
    path = empty_workspace.layout.experiment("alpha").adaptive
    content = read_json(path)
    content["looks"]["1"][0]["difference"] *= factor
    publish_json(path, content)
    if same:
        assert compare_adaptively(REQUEST, empty_workspace, Console()) == 0
    else:
        with pytest.raises(
            RecordError, match="interim analysis 1 at alpha gave other decisions before"
        ):
            compare_adaptively(REQUEST, empty_workspace, Console())


def test_a_nan_score_stops_the_comparison_with_a_message(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """A completed run whose score is NaN stops the comparison with an error."""
    trained["score"] = lambda label, seed: float("nan") if seed == 1 else 1.0 * seed
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(
        RecordError, match="the next interim analysis needs 2 runs that ended without a score"
    ):
        compare_adaptively(REQUEST, empty_workspace, Console())


def test_a_dry_run_has_a_json_document(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json there is one document with the runs of the next interim analysis."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(
        targets=("alpha",), group=4, interims=4, overrides=QUICK, dry_run=True
    )
    plan = document(empty_workspace, capsys, rehearsal)
    assert (1, ["ppo", "a2c"], 32) == (plan["look"], plan["wanted"], plan["most_runs"])
    assert 8 == plan["plan"]["runs"]


def test_a_dry_run_names_a_missing_tracker(
    empty_workspace: Workspace, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run names a tracker whose package is not installed."""
    monkeypatch.setattr(viewing, "find_spec", lambda _: None)
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    notes: list[str] = []
    observer = SilentObserver()
    monkeypatch.setattr(observer, "note", notes.append)
    overrides = (*QUICK, "tracker=[mlflow]")
    rehearse(replace(REQUEST, overrides=overrides, dry_run=True), empty_workspace, observer)
    assert any("mlflow is not installed" in note for note in notes)


def test_a_dry_run_of_a_changed_design_is_refused(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """A dry run refuses a design that differs from the frozen one."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(REQUEST, empty_workspace, Console()) == 0
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK, dry_run=True)
    with pytest.raises(RecordError, match="frozen at its first interim analysis"):
        compare_adaptively(other, empty_workspace, Console())


def test_an_interim_analysis_with_a_finally_failed_run_trains_nothing(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """A failed run of the next interim analysis stops the comparison before training."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    experiment.attempt(1, failed())
    with pytest.raises(
        RecordError, match="the next interim analysis needs 1 run that ended without a score"
    ):
        compare_adaptively(REQUEST, empty_workspace, Console())
    assert {} == trained["runs"]


def with_part(configured: Configuration, name: str, **settings: Any) -> Configuration:
    """A configuration with further settings of its algorithm, or another device."""
    if name == "compute":
        return replace(configured, compute=replace(configured.compute, **settings))
    return replace(configured, algorithm={**configured.algorithm, **settings})


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            with_part(DQN, "algorithm", buffer_size=150),
            r"need 4\.3 GB of memory \(dqn .* this machine has 4 GB: add --set executor\.workers=1$",
        ),
        (with_part(DQN, "compute", device="cuda:77"), "compute.device=cuda:77"),
    ],
)
def test_runs_that_cannot_start_are_refused_before_the_design_is_frozen(
    empty_workspace: Workspace,
    trained: dict[str, Any],
    spaces: dict[str, EnvironmentSpaces],
    monkeypatch: pytest.MonkeyPatch,
    changed: Configuration,
    expected: str,
    *,
    dry_run: bool,
) -> None:
    """Runs that need more memory or another device are refused, and no design is written."""
    huge = EnvironmentSpaces(
        ("Box",), "Discrete", 1, masked=False, frame=10**7, transition=2 * 10**7
    )
    spaces["dqn"] = huge
    monkeypatch.setattr("rlexp.app.execution.memory_plan.memory_limit", lambda: 4 * 10**9)
    experiment = stored(empty_workspace.layout, "alpha", PPO, changed, test=1)
    two = replace(REQUEST, overrides=(*QUICK, "executor.workers=2"), dry_run=dry_run)
    with pytest.raises(ConfigError, match=expected):
        compare_adaptively(two, empty_workspace, Console())
    assert not experiment.paths.adaptive.exists()
    assert {} == trained["runs"]


def test_the_offered_word_makes_the_runs_fit(
    empty_workspace: Workspace,
    trained: dict[str, Any],
    spaces: dict[str, EnvironmentSpaces],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one worker, runs start that do not fit into the memory together."""
    spaces["dqn"] = EnvironmentSpaces(
        ("Box",), "Discrete", 1, masked=False, frame=10**7, transition=2 * 10**7
    )
    monkeypatch.setattr("rlexp.app.execution.memory_plan.memory_limit", lambda: 4 * 10**9)
    changed = with_part(DQN, "algorithm", buffer_size=150)
    stored(empty_workspace.layout, "alpha", PPO, changed, test=1)
    fewer = replace(REQUEST, overrides=(*QUICK, "executor.workers=1"))
    assert compare_adaptively(fewer, empty_workspace, Console()) == 0
    assert {"ppo", "dqn"} == set(trained["runs"])


@pytest.mark.parametrize("content", ["[]", "garb", '{"schema": 1, "design": {"group": 0}}'])
def test_a_damaged_design_file_stops_only_adaptive_comparisons(
    empty_workspace: Workspace, content: str
) -> None:
    """A damaged design file stops a sequential comparison and not an ordinary one."""
    experiment = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    for label in ("ppo", "a2c"):
        experiment.complete(0, 1.0, label=label)
    experiment.paths.adaptive.write_text(content)
    with pytest.raises(RecordError, match=r"adaptive\.json"):
        compare_adaptively(REQUEST, empty_workspace, Console())
    comparison = compare(CompareRequest(targets=("alpha",), overrides=QUICK), empty_workspace)
    assert not any("--adaptive" in step.command for step in comparison.next)
