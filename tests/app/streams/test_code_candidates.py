"""Candidates that change code: what is refused, what counts as their score, and the test at the end."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bundled_studies import SHORT, unpack
from command_line import rlexp, typed
from stream_studies import (
    CHEAT,
    DESIGN,
    GOOD,
    LEARNER,
    REWARDS,
    WORDS,
    commit,
    diff_to,
    git,
    open_lamps,
    worktree_of,
)
from warm_processes import warm_up

from rlexp.app.observer import SilentObserver
from rlexp.app.streams import separate_process
from rlexp.app.streams.handed_scoring import answer_of, serve_scores
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import local
from rlexp.store.files import publish_json
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.registers.streams import read_stream
from rlexp.store.runs import read_run

ALLOWED = ("--allow-import", "learner", "--json", "-q")


@dataclass(frozen=True)
class JudgedStudy:
    """A study whose stream has judged two candidates."""

    folder: Path
    cheat: dict[str, Any]
    good: dict[str, Any]

    @property
    def paths(self) -> ExperimentPaths:
        return ExperimentPaths(self.folder / "runs" / "s")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedStudy]:
    """A stream after a candidate that patches the evaluation, and one that learns the task."""
    base = tmp_path_factory.mktemp("streams")
    folder = open_lamps(base / "study")
    cheating = worktree_of(folder, base / "cheating", learner=CHEAT + LEARNER)
    good = diff_to(folder, base / "good.patch", learner=GOOD)
    with pytest.MonkeyPatch.context() as patch:
        for module in (local, separate_process):
            warm_up(patch, module)
        begun = rlexp(folder, "propose", "s", "--begin", *WORDS, *DESIGN, *ALLOWED)
        assert "begun" == begun.document("stream")["answer"]
        cheat = rlexp(folder, "propose", "s", "--worktree", str(cheating), *ALLOWED)
        kept = rlexp(folder, "propose", "s", "--diff", str(good), *ALLOWED)
        assert (6, 0) == (cheat.code, kept.code), (cheat.err, kept.err)
        yield JudgedStudy(folder, cheat.document("stream"), kept.document("stream"))


def test_a_patched_evaluation_gains_nothing(judged: JudgedStudy) -> None:
    """Code that patches reward and evaluation when it trains claims 1000, and its score stays as it is."""
    register = read_stream(judged.paths)
    (candidate,) = [c for c in register.candidates if c.number == 1]
    runs = [
        paths
        for paths in judged.paths.runs()
        if read_run(paths).record.spec.code == candidate_code(judged)
    ]
    claims = [path for run in runs for path in run.folder.rglob("events.jsonl")]
    assert 3 == len(claims)
    assert all('"returns":[1000.0' in path.read_text().replace(" ", "") for path in claims)
    for run in runs:
        record = read_run(run).record
        assert record.score is not None
        assert record.score <= 8.0
        assert record.score == register.scored[record.spec.id].score
    row = judged.cheat["candidates"][0]
    assert ("discarded", 0) == (row["decision"], row["won"])
    assert row["mean"] == row["champion_mean"]
    assert candidate.level == pytest.approx(0.3)


def candidate_code(judged: JudgedStudy) -> str:
    """The digest of the code of the cheating candidate."""
    code: str = judged.cheat["candidates"][0]["code"]
    return code


def test_code_that_learns_is_kept_and_becomes_the_champion(judged: JudgedStudy) -> None:
    """A patch that lets the learner learn wins its seeds; its digest is a tree of git, kept by a reference."""
    row = judged.good["candidates"][1]
    assert ("kept", "better", 2, 2) == (row["decision"], row["reason_code"], row["won"], row["n"])
    assert judged.good["champion"] == 2
    assert row["code"] == git(judged.folder, "rev-parse", f"{row['commit']}^{{tree}}")
    assert row["commit"] in git(judged.folder, "for-each-ref")
    assert "" == git(judged.folder, "status", "--porcelain")
    # The learner of the working tree is still that of the first champion.
    assert LEARNER == (judged.folder / "learner.py").read_text()


def test_every_run_trained_in_the_code_of_its_candidate(judged: JudgedStudy) -> None:
    """The provenance of each run names the commit of its candidate, without changes."""
    register = read_stream(judged.paths)
    commits = {trial_code(judged, n): register.commit_of(n) for n in (0, 1, 2)}
    for run in judged.paths.runs():
        spec = read_run(run).record.spec
        text = run.attempt(1).provenance.read_text()
        assert spec.code is not None
        assert f'"commit": "{commits[spec.code]}"' in text


def trial_code(judged: JudgedStudy, number: int) -> str:
    """The digest of the code of a candidate or of the first champion."""
    document = judged.good
    code: str = document["code"] if number == 0 else document["candidates"][number - 1]["code"]
    return code


def test_a_changed_reward_is_refused_by_its_digest(judged: JudgedStudy, tmp_path: Path) -> None:
    """A patch of a module that the environment imports is refused by the name of the file."""
    patch = diff_to(
        judged.folder, tmp_path / "x.patch", rewards=REWARDS.replace("float(", "2 * float(")
    )
    before = judged.paths.candidates.read_bytes()
    with pytest.raises(
        RecordError, match=r"the candidate changes rewards\.py, on which"
    ) as refused:
        rlexp(judged.folder, "propose", "s", "--diff", str(patch), *ALLOWED)
    assert ("protected", "rewards.py") == (refused.value.code, refused.value.key)
    assert before == judged.paths.candidates.read_bytes()


def test_a_package_before_a_protected_module_is_refused(
    judged: JudgedStudy, tmp_path: Path
) -> None:
    """A candidate cannot put a package of the same name before a module of the environment."""
    worktree = worktree_of(judged.folder, tmp_path / "shadow")
    (worktree / "rewards").mkdir()
    (worktree / "rewards" / "__init__.py").write_text("reward = lambda action, lamp: 9.0\n")
    commit(worktree, "shadow")
    with pytest.raises(RecordError, match=r"adds rewards/__init__\.py"):
        rlexp(judged.folder, "propose", "s", "--worktree", str(worktree), *ALLOWED)


def test_another_measure_in_the_code_is_refused(judged: JudgedStudy, tmp_path: Path) -> None:
    """A candidate whose configuration files change the environment is refused by the setting."""
    worktree = worktree_of(judged.folder, tmp_path / "measure")
    option = worktree / "conf" / "environment" / "lamps.yaml"
    option.write_text(option.read_text() + "measures: {success: {minimum: 0.5}}\n")
    commit(worktree, "measure")
    with pytest.raises(ConfigError, match=r"changes measures\.success.*frozen") as refused:
        rlexp(judged.folder, "propose", "s", "--worktree", str(worktree), *ALLOWED)
    assert "protected" == refused.value.code


def test_a_dirty_worktree_is_refused_with_the_words_to_type(
    judged: JudgedStudy, tmp_path: Path
) -> None:
    """A worktree with an uncommitted change is refused; the message has the commands that commit it."""
    worktree = worktree_of(judged.folder, tmp_path / "dirty", learner=GOOD)
    (worktree / "notes.txt").write_text("x")
    with pytest.raises(
        RecordError, match=r"notes\.txt.*git -C .* commit -m candidate && rlexp"
    ) as refused:
        rlexp(judged.folder, "propose", "s", "--worktree", str(worktree), *ALLOWED)
    assert "dirty_tree" == refused.value.code


def test_another_repository_is_refused(judged: JudgedStudy, tmp_path: Path) -> None:
    """A clean checkout of another repository is no worktree of the study."""
    other = open_lamps(tmp_path / "other")
    (other / "more.txt").write_text("x")
    commit(other, "more")
    with pytest.raises(RecordError, match="is no worktree of"):
        rlexp(judged.folder, "propose", "s", "--worktree", str(other), *ALLOWED)


def test_a_network_that_the_trusted_code_lacks_is_refused(
    judged: JudgedStudy, tmp_path: Path
) -> None:
    """A candidate with a new class is refused before training: the trusted code cannot score it."""
    worktree = worktree_of(judged.folder, tmp_path / "class", other_learner=GOOD)
    option = worktree / "conf" / "algorithm" / "learner.yaml"
    option.write_text(option.read_text().replace("learner.Learner", "other_learner.Learner"))
    commit(worktree, "class")
    with pytest.raises(ConfigError, match="cannot build this one"):
        rlexp(
            *(judged.folder, "propose", "s", "--worktree", str(worktree), *ALLOWED),
            *("--allow-import", "other_learner"),
        )


def test_the_test_uses_the_trusted_code_and_is_made_once(
    judged: JudgedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--final` writes the selection, trains both sides on test seeds, and closes the stream."""
    for module in (local, separate_process):
        warm_up(monkeypatch, module)
    folder = tmp_path / "copy"
    shutil.copytree(judged.folder, folder)
    runs = ExperimentPaths(folder / "runs" / "s")
    assert not any("-test-" in run.folder.name for run in runs.runs())
    tested = rlexp(folder, "propose", "s", "--final", *ALLOWED)
    document = tested.document("stream")
    assert (0, "tested", 0) == (tested.code, document["answer"], document["tests_missing"])
    assert 4 == sum("-test-" in run.folder.name for run in runs.runs())
    assert '"winner": 2' in runs.selection.read_text()
    register = read_stream(runs)
    tests = [s for s in register.scored.values() if "-test-" in s.run]
    assert 4 == len(tests)
    assert document["card"]["looks"][0]["configurations"] == 2
    assert "ptimism" in json.dumps(document["card"])
    with pytest.raises(RecordError) as closed:
        rlexp(folder, "propose", "s", "algorithm.gamma=0.9", *ALLOWED)
    assert "closed_stream" == closed.value.code
    again = rlexp(folder, "propose", "s", "--final", *ALLOWED).document("stream")
    assert document["candidates"] == again["candidates"]
    assert document["head"] == again["head"]
    verified = typed(folder, "verify", "s")
    assert 0 == verified.code, verified.out


@pytest.mark.parametrize("word", ["--final", "algorithm.gamma=0.9"])
def test_a_command_without_permission_spends_nothing(judged: JudgedStudy, word: str) -> None:
    """Without `--allow-import`, no run is trained that could only fail, and the message has the command."""
    before = judged.paths.candidates.read_bytes()
    with pytest.raises(RecordError, match="--allow-import learner"):
        rlexp(judged.folder, "propose", "s", word)
    assert before == judged.paths.candidates.read_bytes()
    shown = rlexp(judged.folder, "propose", "s", "--json").document("stream")
    assert all("--allow-import learner" in each["command"] for each in shown["next"])


def test_a_scoring_worker_without_permission_gives_no_answer(
    judged: JudgedStudy, tmp_path: Path
) -> None:
    """A worker that may not import the learner is refused: its answer would count as a failed run."""
    folder = tmp_path / "copy"
    shutil.copytree(judged.folder, folder)
    paths = ExperimentPaths(folder / "runs" / "s")
    name = next(run.folder.name for run in paths.runs())
    publish_json(paths.scoring_orders / f"{name}.json", {"run": name, "policy": None})
    with pytest.raises(RecordError, match=r"worker s --scores .*--allow-import learner"):
        rlexp(folder, "worker", "s", "--scores")
    assert not answer_of(paths, name).exists()


def test_a_worker_elsewhere_is_sent_to_a_checkout(judged: JudgedStudy, tmp_path: Path) -> None:
    """The message has one command, which makes the checkout and starts the same worker there."""
    elsewhere = worktree_of(judged.folder, tmp_path / "elsewhere", learner=GOOD)
    runs = str(judged.folder / "runs")
    workspace = Workspace(elsewhere, Layout(Path(runs)), ("learner", "lamps"))
    with pytest.raises(RecordError) as refused:
        serve_scores(judged.paths, workspace, lambda: False, SilentObserver())
    command = str(refused.value.command)
    assert command.startswith("git worktree add --detach ../s-")
    assert f"RLEXP_RUNS={runs} rlexp worker s --scores --allow-import" in command


def test_a_bundle_of_a_stream_has_its_register_and_its_scores(
    judged: JudgedStudy, tmp_path: Path
) -> None:
    """The unpacked copy has the same scores, none of which is a claim, and no fault."""
    archive = tmp_path / "s.zip"
    words = ("bundle", "s", "--output", str(archive), "--phase", "tuning", *SHORT)
    assert 0 == rlexp(judged.folder, *words).code
    copy = ExperimentPaths(unpack(archive, tmp_path / "copy") / "runs" / "s")
    scores = {run.folder.name: read_run(run).record.score for run in judged.paths.runs()}
    assert None not in scores.values()
    assert scores == {run.folder.name: read_run(run).record.score for run in copy.runs()}
    verified = rlexp(tmp_path / "copy", "verify", "s")
    assert (0, judged.paths.candidates.read_bytes()) == (
        verified.code,
        copy.candidates.read_bytes(),
    ), verified.out
