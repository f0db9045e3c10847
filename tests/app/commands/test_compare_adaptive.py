"""Sequential comparisons add seeds for undecided pairs only, with one frozen design."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, configuration, failed, stored

from rlexp.app.commands.compare import CompareRequest, compare
from rlexp.app.commands.compare_adaptive import AdaptiveRequest
from rlexp.app.workspace import Workspace
from rlexp.cli.compare_adaptive import compare_adaptively
from rlexp.console import Console
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import Layout
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)

PPO, A2C, DQN = (configuration(label) for label in ("ppo", "a2c", "dqn"))
QUICK = ("repetitions=2000",)
ASKED = AdaptiveRequest(
    targets=("alpha",),
    group=4,
    interims=4,
    overrides=QUICK,
    command=("rlexp", "compare", "alpha"),
)
Scores = Callable[[str, int], float]


def far_apart(label: str, seed: int) -> float:
    """Scores of dqn are far below those of the other labels, which are alike."""
    return (0.0 if label == "dqn" else 100.0) + (seed * 7 % 5) + (label == "ppo") * 0.1


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace with a separate cache of run speeds."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return Workspace(tmp_path, Layout(tmp_path / "runs"))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Training that takes no time: each run ends with its label's and seed's score.

    `score` may be replaced; `runs` tells the seeds that were trained, by label; a `limit` ends
    the command after so many runs.
    """
    output: dict[str, Any] = {"score": far_apart, "runs": {}, "limit": None}

    def train(paths: Any, phase: Phase, plan: Plan, *_: object) -> signal.Signals | None:
        experiment = read_experiment(paths)
        for configuration_, spec in experiment.specs(phase):
            if spec in plan.missing:
                if output["limit"] == 0:
                    return signal.SIGINT
                output["limit"] = output["limit"] and output["limit"] - 1
                label = configuration_.label
                output["runs"].setdefault(label, []).append(spec.seed)
                score = output["score"](label, spec.seed)
                Stored(paths, experiment).complete(spec.seed, score, label=label)
        return None

    monkeypatch.setattr("rlexp.app.execution.launch.execute_missing_runs", train)
    return output


def result(
    empty_workspace: Workspace, capsys: pytest.CaptureFixture[str], asked: AdaptiveRequest = ASKED
) -> Any:
    """The JSON document of the command."""
    import json

    assert compare_adaptively(asked, empty_workspace, Console(as_json=True)) == 0
    return json.loads(capsys.readouterr().out)


def test_seeds_are_spent_on_undecided_pairs_only(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A label far below the others is decided at once and gets no more seeds; the others do."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, DQN, test=1)
    results = result(empty_workspace, capsys)
    decided = {(p["first"], p["second"]): (p["decision"], p["look"]) for p in results["pairs"]}
    assert {"ppo": 16, "a2c": 16} == {
        label: len(seeds) for label, seeds in trained["runs"].items() if label != "dqn"
    }
    assert ("equal", 4) == decided["ppo", "a2c"]
    assert "better" == decided["ppo", "dqn"][0] == decided["a2c", "dqn"][0]
    last = max(decided["ppo", "dqn"][1], decided["a2c", "dqn"][1])
    assert last < 4
    assert list(range(4 * last)) == trained["runs"]["dqn"]
    assert results["fixed_design"] - results["runs"] == results["saved"] == 16 - 4 * last
    planned = [c.label for c, _ in read_experiment(there.paths).specs(Phase.TEST)]
    assert {"ppo": 16, "a2c": 16, "dqn": 4 * last} == {k: planned.count(k) for k in set(planned)}


def test_existing_runs_are_used(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """No run is trained twice, and the decisions equal those of a comparison from scratch."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    for label in ("ppo", "a2c"):
        for seed in range(2):
            there.complete(seed, far_apart(label, seed), label=label)
    first = result(empty_workspace, capsys)
    assert [2, 3] == trained["runs"]["ppo"][:2]
    trained["runs"].clear()
    assert first == result(empty_workspace, capsys)
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
    through = result(empty_workspace, capsys)
    records = read_json(empty_workspace.layout.experiment("alpha").adaptive)
    other = Workspace(empty_workspace.folder, Layout(empty_workspace.folder / "other"))
    stored(other.layout, "alpha", PPO, A2C, DQN, test=1)
    trained |= {"limit": limit}
    assert compare_adaptively(ASKED, other, Console()) == 130
    assert "To continue: rlexp compare alpha\n" in capsys.readouterr().out
    trained |= {"limit": None}
    assert through == result(other, capsys)
    assert records == read_json(other.layout.experiment("alpha").adaptive)


def test_the_design_is_frozen_at_the_first_look(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another design is refused with the differences; --restart keeps the old one on record."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    result(empty_workspace, capsys)
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK)
    with pytest.raises(RecordError, match="frozen at its first look"):
        compare_adaptively(other, empty_workspace, Console())
    again = AdaptiveRequest(targets=("alpha",), group=8, interims=4, restart=True, overrides=QUICK)
    for _ in range(2):
        assert compare_adaptively(again, empty_workspace, Console()) == 0
        assert "earlier designs that looked at these scores: 1" in capsys.readouterr().err
    kept = read_json(empty_workspace.layout.experiment("alpha").adaptive)
    assert (8, [4]) == (kept["design"]["group"], [e["design"]["group"] for e in kept["earlier"]])


def test_a_score_that_changed_after_a_look_is_refused(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The look would otherwise decide on other numbers than it did before."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    result(empty_workspace, capsys)
    (journal,) = [a.journal for a in there.run(0).attempts()]
    journal.write_text(journal.read_text().replace("99.1", "299.1"))
    with pytest.raises(RecordError, match="look 1 at alpha gave other decisions before"):
        compare_adaptively(ASKED, empty_workspace, Console())


def test_a_dry_run_starts_nothing(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows the runs that the next look needs."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=4, interims=4, dry_run=True)
    assert compare_adaptively(rehearsal, empty_workspace, Console()) == 0
    assert "8 runs × 100 environment steps" in (said := capsys.readouterr().out)
    assert "Look 1 of 4: ppo, a2c; at most 32 runs in total" in said
    assert not there.paths.adaptive.exists()
    assert {} == trained["runs"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"targets": ("alpha/ppo",)}, "a comparison needs two labels"),
        ({"targets": ("alpha", "beta")}, "so all labels must belong to it"),
        ({"group": 2, "interims": 1}, "cannot decide any pair at alpha=0.05"),
        ({"family": "holms"}, "there is no family 'holms'; did you mean 'holm'"),
    ],
)
def test_targets_that_cannot_be_compared_are_refused(
    empty_workspace: Workspace, asked: dict[str, Any], expected: str
) -> None:
    """The error is one sentence, and nothing is written."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(ConfigError, match=expected):
        compare_adaptively(
            AdaptiveRequest(**{"targets": ("alpha",), **asked}), empty_workspace, Console()
        )
    assert not there.paths.adaptive.exists()


def test_scores_before_the_design_cause_a_warning(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A design that may have been chosen by existing scores does not control its error rate."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    there.complete(0, 100.0)
    assert compare_adaptively(ASKED, empty_workspace, Console()) == 0
    assert "Warning: 1 score existed when the design was frozen" in capsys.readouterr().err
    assert 1 == read_json(there.paths.adaptive)["scores"]


def test_a_dry_run_of_another_design_shows_no_decision(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a user could try designs until one of them decides."""
    there = stored(empty_workspace.layout, "alpha", PPO, DQN, test=8)
    for label in ("ppo", "dqn"):
        for seed in range(8):
            there.complete(seed, far_apart(label, seed), label=label)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=8, interims=1, dry_run=True)
    assert compare_adaptively(rehearsal, empty_workspace, Console()) == 0
    assert "Nothing to run" in (said := capsys.readouterr().out)
    assert "better" not in said


@pytest.mark.parametrize(("factor", "same"), [(1 + 1e-12, True), (1 + 1e-3, False)])
def test_rounding_differences_between_processors_are_accepted(
    empty_workspace: Workspace, trained: dict[str, Any], factor: float, same: bool
) -> None:
    """A look counts as the same if its numbers differ only by rounding."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(ASKED, empty_workspace, Console()) == 0
    path = empty_workspace.layout.experiment("alpha").adaptive
    content = read_json(path)
    content["looks"]["1"][0]["difference"] *= factor
    publish_json(path, content)
    if same:
        assert compare_adaptively(ASKED, empty_workspace, Console()) == 0
    else:
        with pytest.raises(RecordError, match="look 1 at alpha gave other decisions before"):
            compare_adaptively(ASKED, empty_workspace, Console())


def test_a_nan_score_stops_the_comparison_with_a_message(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """A completed run whose score is NaN is named, because repeating it would not change it."""
    trained["score"] = lambda label, seed: float("nan") if seed == 1 else 1.0 * seed
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(RecordError, match="the next look needs 2 runs that ended without a score"):
        compare_adaptively(ASKED, empty_workspace, Console())


def test_a_dry_run_has_a_json_document(
    empty_workspace: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json there is one document with the runs of the next look."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(
        targets=("alpha",), group=4, interims=4, overrides=QUICK, dry_run=True
    )
    results = result(empty_workspace, capsys, rehearsal)
    assert (1, ["ppo", "a2c"], 32) == (results["look"], results["wanted"], results["most_runs"])
    assert 8 == results["plan"]["runs"]


def test_a_dry_run_of_a_changed_design_is_refused(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """The dry run refuses a design that differs from the frozen one, as the command does."""
    stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(ASKED, empty_workspace, Console()) == 0
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK, dry_run=True)
    with pytest.raises(RecordError, match="frozen at its first look"):
        compare_adaptively(other, empty_workspace, Console())


def test_a_look_with_a_finally_failed_run_trains_nothing(
    empty_workspace: Workspace, trained: dict[str, Any]
) -> None:
    """A run of the next group that failed for good is named before anything is trained."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=2)
    there.attempt(1, failed())
    with pytest.raises(RecordError, match="the next look needs 1 run that ended without a score"):
        compare_adaptively(ASKED, empty_workspace, Console())
    assert {} == trained["runs"]


@pytest.mark.parametrize("content", ["[]", "garb", '{"schema": 1, "design": {"group": 0}}'])
def test_a_damaged_design_file_stops_only_adaptive_comparisons(
    empty_workspace: Workspace, content: str
) -> None:
    """The sequential comparison reports the damage; an ordinary comparison works."""
    there = stored(empty_workspace.layout, "alpha", PPO, A2C, test=1)
    for label in ("ppo", "a2c"):
        there.complete(0, 1.0, label=label)
    there.paths.adaptive.write_text(content)
    with pytest.raises(RecordError, match=r"adaptive\.json"):
        compare_adaptively(ASKED, empty_workspace, Console())
    comparison = compare(CompareRequest(targets=("alpha",), overrides=QUICK), empty_workspace)
    assert not any("--adaptive" in step.command for step in comparison.next)
