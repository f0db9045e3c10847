"""Sequential comparisons: seeds where they decide, one frozen design, the same decisions again."""

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
    """Scores of dqn far below the others', which are alike."""
    return (0.0 if label == "dqn" else 100.0) + (seed * 7 % 5) + (label == "ppo") * 0.1


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty study, with a cache of its own for what it learns of speeds."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return Workspace(tmp_path, Layout(tmp_path / "runs"))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Training that takes no time: each run ends with its label's and seed's score.

    `score` may be replaced; `runs` tells the seeds that were trained, by label; a `limit` ends
    the command after so many runs.
    """
    told: dict[str, Any] = {"score": far_apart, "runs": {}, "limit": None}

    def train(paths: Any, phase: Phase, plan: Plan, *_: object) -> signal.Signals | None:
        experiment = read_experiment(paths)
        for configuration_, spec in experiment.specs(phase):
            if spec in plan.missing:
                if told["limit"] == 0:
                    return signal.SIGINT
                told["limit"] = told["limit"] and told["limit"] - 1
                label = configuration_.label
                told["runs"].setdefault(label, []).append(spec.seed)
                score = told["score"](label, spec.seed)
                Stored(paths, experiment).complete(spec.seed, score, label=label)
        return None

    monkeypatch.setattr("rlexp.app.execution.launch.drive", train)
    return told


def result(
    place: Workspace, capsys: pytest.CaptureFixture[str], asked: AdaptiveRequest = ASKED
) -> Any:
    """What the command says to a machine."""
    import json

    assert compare_adaptively(asked, place, Console(as_json=True)) == 0
    return json.loads(capsys.readouterr().out)


def test_seeds_are_spent_on_undecided_pairs_only(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is far below is decided at once and gets no further seed; the others go on."""
    there = stored(place.layout, "alpha", PPO, A2C, DQN, test=1)
    found = result(place, capsys)
    decided = {(p["first"], p["second"]): (p["decision"], p["look"]) for p in found["pairs"]}
    assert {"ppo": 16, "a2c": 16} == {
        label: len(seeds) for label, seeds in trained["runs"].items() if label != "dqn"
    }
    assert ("equal", 4) == decided["ppo", "a2c"]
    assert "better" == decided["ppo", "dqn"][0] == decided["a2c", "dqn"][0]
    last = max(decided["ppo", "dqn"][1], decided["a2c", "dqn"][1])
    assert last < 4
    assert list(range(4 * last)) == trained["runs"]["dqn"]
    assert found["fixed_design"] - found["runs"] == found["saved"] == 16 - 4 * last
    planned = [c.label for c, _ in read_experiment(there.paths).specs(Phase.TEST)]
    assert {"ppo": 16, "a2c": 16, "dqn": 4 * last} == {k: planned.count(k) for k in set(planned)}


def test_runs_that_are_there_are_used(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is trained twice, and the decisions are those of a comparison from scratch."""
    there = stored(place.layout, "alpha", PPO, A2C, test=2)
    for label in ("ppo", "a2c"):
        for seed in range(2):
            there.complete(seed, far_apart(label, seed), label=label)
    first = result(place, capsys)
    assert [2, 3] == trained["runs"]["ppo"][:2]
    trained["runs"].clear()
    assert first == result(place, capsys)
    assert {} == trained["runs"]


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_an_interrupted_comparison_goes_on_where_it_was(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str], limit: int
) -> None:
    """Ended after any run, it prints the command that continues it; the result is the same."""
    stored(place.layout, "alpha", PPO, A2C, DQN, test=1)
    through = result(place, capsys)
    records = read_json(place.layout.experiment("alpha").adaptive)
    other = Workspace(place.folder, Layout(place.folder / "other"))
    stored(other.layout, "alpha", PPO, A2C, DQN, test=1)
    trained |= {"limit": limit}
    assert compare_adaptively(ASKED, other, Console()) == 130
    assert "To continue: rlexp compare alpha\n" in capsys.readouterr().out
    trained |= {"limit": None}
    assert through == result(other, capsys)
    assert records == read_json(other.layout.experiment("alpha").adaptive)


def test_the_design_is_frozen_at_the_first_look(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another one is refused with what differs; --restart keeps the given-up one on record."""
    stored(place.layout, "alpha", PPO, A2C, test=1)
    result(place, capsys)
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK)
    with pytest.raises(RecordError, match="frozen at its first look"):
        compare_adaptively(other, place, Console())
    again = AdaptiveRequest(targets=("alpha",), group=8, interims=4, restart=True, overrides=QUICK)
    for _ in range(2):
        assert compare_adaptively(again, place, Console()) == 0
        assert "1 earlier design(s) looked at these scores" in capsys.readouterr().err
    kept = read_json(place.layout.experiment("alpha").adaptive)
    assert (8, [4]) == (kept["design"]["group"], [e["design"]["group"] for e in kept["earlier"]])


def test_a_score_that_changed_after_a_look_is_noticed(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The look would decide on other numbers than it did."""
    there = stored(place.layout, "alpha", PPO, A2C, test=1)
    result(place, capsys)
    (journal,) = [a.journal for a in there.run(0).attempts()]
    journal.write_text(journal.read_text().replace("99.1", "299.1"))
    with pytest.raises(RecordError, match="look 1 at alpha gave other decisions before"):
        compare_adaptively(ASKED, place, Console())


def test_a_rehearsal_starts_nothing(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what the next look needs."""
    there = stored(place.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=4, interims=4, dry_run=True)
    assert compare_adaptively(rehearsal, place, Console()) == 0
    assert "8 runs × 100 environment steps" in (said := capsys.readouterr().out)
    assert "Look 1 of 4 at ppo, a2c; at most 32 runs in all" in said
    assert not there.paths.adaptive.exists()
    assert {} == trained["runs"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"targets": ("alpha/ppo",)}, "a comparison needs two labels"),
        ({"targets": ("alpha", "beta")}, "is about the labels of one experiment"),
        ({"group": 2, "interims": 1}, "cannot decide any pair at alpha=0.05"),
        ({"family": "holms"}, "there is no family 'holms'; did you mean 'holm'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    place: Workspace, asked: dict[str, Any], expected: str
) -> None:
    """In a sentence, before anything is written."""
    there = stored(place.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(ConfigError, match=expected):
        compare_adaptively(AdaptiveRequest(**{"targets": ("alpha",), **asked}), place, Console())
    assert not there.paths.adaptive.exists()


def test_scores_that_were_there_before_are_warned_of(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A design that may have been chosen by them does not control its error; it stays on record."""
    there = stored(place.layout, "alpha", PPO, A2C, test=2)
    there.complete(0, 100.0)
    assert compare_adaptively(ASKED, place, Console()) == 0
    assert "Warning: the design was frozen when 1 score could be seen" in capsys.readouterr().err
    assert 1 == read_json(there.paths.adaptive)["scores"]


def test_a_rehearsal_of_another_design_tells_no_verdict(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or designs could be tried until one decides."""
    there = stored(place.layout, "alpha", PPO, DQN, test=8)
    for label in ("ppo", "dqn"):
        for seed in range(8):
            there.complete(seed, far_apart(label, seed), label=label)
    rehearsal = AdaptiveRequest(targets=("alpha",), group=8, interims=1, dry_run=True)
    assert compare_adaptively(rehearsal, place, Console()) == 0
    assert "Nothing to run" in (said := capsys.readouterr().out)
    assert "better" not in said


@pytest.mark.parametrize(("factor", "same"), [(1 + 1e-12, True), (1 + 1e-3, False)])
def test_another_processor_may_round_otherwise(
    place: Workspace, trained: dict[str, Any], factor: float, same: bool
) -> None:
    """A look is the same when its numbers differ by rounding only."""
    stored(place.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(ASKED, place, Console()) == 0
    path = place.layout.experiment("alpha").adaptive
    plain = read_json(path)
    plain["looks"]["1"][0]["difference"] *= factor
    publish_json(path, plain)
    if same:
        assert compare_adaptively(ASKED, place, Console()) == 0
    else:
        with pytest.raises(RecordError, match="look 1 at alpha gave other decisions before"):
            compare_adaptively(ASKED, place, Console())


def test_a_run_without_a_number_stops_the_comparison_in_words(
    place: Workspace, trained: dict[str, Any]
) -> None:
    """A completed run whose score is NaN is named: no repeat would change it."""
    trained["score"] = lambda label, seed: float("nan") if seed == 1 else 1.0 * seed
    stored(place.layout, "alpha", PPO, A2C, test=1)
    with pytest.raises(RecordError, match="2 runs that the next look needs ended without a score"):
        compare_adaptively(ASKED, place, Console())


def test_a_rehearsal_is_json_for_machines(
    place: Workspace, trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """One value, of what the next look would run."""
    stored(place.layout, "alpha", PPO, A2C, test=1)
    rehearsal = AdaptiveRequest(
        targets=("alpha",), group=4, interims=4, overrides=QUICK, dry_run=True
    )
    found = result(place, capsys, rehearsal)
    assert (1, ["ppo", "a2c"], 32) == (found["look"], found["wanted"], found["most_runs"])
    assert 8 == found["plan"]["runs"]


def test_a_rehearsal_of_another_design_than_the_frozen_one_is_refused(
    place: Workspace, trained: dict[str, Any]
) -> None:
    """Just as the command itself is."""
    stored(place.layout, "alpha", PPO, A2C, test=1)
    assert compare_adaptively(ASKED, place, Console()) == 0
    other = AdaptiveRequest(targets=("alpha",), group=8, interims=4, overrides=QUICK, dry_run=True)
    with pytest.raises(RecordError, match="frozen at its first look"):
        compare_adaptively(other, place, Console())


def test_nothing_is_trained_for_a_look_that_can_never_be_made(
    place: Workspace, trained: dict[str, Any]
) -> None:
    """A run of the next group that failed for good is named first."""
    there = stored(place.layout, "alpha", PPO, A2C, test=2)
    there.attempt(1, failed())
    with pytest.raises(RecordError, match="1 run that the next look needs ended without a score"):
        compare_adaptively(ASKED, place, Console())
    assert {} == trained["runs"]


@pytest.mark.parametrize("content", ["[]", "garb", '{"schema": 1, "design": {"group": 0}}'])
def test_a_damaged_ledger_stops_only_what_needs_it(place: Workspace, content: str) -> None:
    """The sequential comparison says what is wrong; a plain one goes on."""
    there = stored(place.layout, "alpha", PPO, A2C, test=1)
    for label in ("ppo", "a2c"):
        there.complete(0, 1.0, label=label)
    there.paths.adaptive.write_text(content)
    with pytest.raises(RecordError, match=r"adaptive\.json"):
        compare_adaptively(ASKED, place, Console())
    comparison = compare(CompareRequest(targets=("alpha",), overrides=QUICK), place)
    assert not any("--adaptive" in step.command for step in comparison.next)
