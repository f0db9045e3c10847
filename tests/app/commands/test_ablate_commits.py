"""An ablation of commits trains each one from a checkout of its own, and says which one did it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import Printed, rlexp, typed
from stream_studies import REWARDS, commit, git, open_lamps
from warm_processes import warm_up

from rlexp.app.bundling.record_files import record_files
from rlexp.app.execution.launch import execute_missing_runs
from rlexp.app.reproduction import commit_range
from rlexp.app.reproduction.commit_range import read_commits
from rlexp.app.streams import separate_process, training
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.executors import local
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_run

WORDS = (
    *("environment=lamps", "algorithm=ppo", "algorithm.n_steps=8", "algorithm.batch_size=8"),
    *("algorithm.n_epochs=1", "budget.steps=8", "budget.evaluation_every=null"),
    *("budget.final_episodes=1", "experiment=range"),
)
DESIGN = ("--group", "4", "--max-seeds", "4", "--alpha", "0.3")
RUNS = 12
PAYS_MORE = REWARDS.replace("return ", "return 10 + ")


def ablated(folder: Path, *words: str) -> Printed:
    """The result of an ablation of the three commits."""
    return rlexp(folder, "ablate", "--commits", "HEAD~2..HEAD", *WORDS, *DESIGN, *words)


def scores(paths: ExperimentPaths) -> dict[str, float | None]:
    """The score of each run."""
    return {run.folder.name: read_run(run).record.score for run in paths.runs()}


@dataclass(frozen=True)
class Study:
    """A repository of three commits, of which the second one pays more, and its ablation."""

    folder: Path
    commits: tuple[str, ...]
    printed: Printed

    @property
    def paths(self) -> ExperimentPaths:
        return ExperimentPaths(self.folder / "runs" / "range")

    @property
    def result(self) -> dict[str, Any]:
        return self.printed.document("ablation")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The study after its ablation, which was killed by an error after the runs of one commit.

    In the working tree, the rewards are changed and cannot even be imported.
    """
    folder = open_lamps(tmp_path_factory.mktemp("commits") / "study")
    commits = [git(folder, "rev-parse", "HEAD")]
    (folder / "rewards.py").write_text(PAYS_MORE)
    commits.append(commit(folder, "Pay more"))
    (folder / "README.md").write_text("Lamps\n")
    commits.append(commit(folder, "Write a page"))
    (folder / "rewards.py").write_text("def broken(:\n")
    with pytest.MonkeyPatch.context() as patch:
        for module in (local, separate_process):
            warm_up(patch, module)
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(training, "execute_missing_runs", _once(execute_missing_runs))
            with pytest.raises(OSError, match="gone"):
                ablated(folder, "--json")
        yield Study(folder, tuple(commits), ablated(folder, "--json"))


def _once(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Execute runs at the first call, and fail at the next one."""
    calls: list[object] = []

    def executed(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) > 1:
            raise OSError("the machine is gone")
        return execute(*arguments)

    return executed


def test_the_commit_that_changed_the_score_did_it(study: Study) -> None:
    """The answer names the hash and the subject of the commit that pays more, and the other has no effect."""
    result, (first, second, third) = study.result, (c[:7] for c in study.commits)
    assert result["answer"].startswith(
        f"{second} (Pay more) did it: with {second} the mean score rises by 8"
    )
    effects = result["effects"]
    assert "commits" == effects["kind"]
    assert (third, first) == (effects["total"]["first"], effects["total"]["second"])
    steps = [change["step"] for change in effects["changes"]]
    assert [(second, first), (third, second)] == [(s["first"], s["second"]) for s in steps]
    assert ["better", "equal"] == [step["decision"] for step in steps]
    assert "better" == effects["total"]["decision"]
    assert (RUNS, 3) == (result["trained"], effects["contrasts"])


def test_each_run_is_trained_by_its_commit(study: Study) -> None:
    """The identity has the tree, and the provenance the clean commit; seeds and settings are the same for all."""
    trees = {f"commit:{git(study.folder, 'rev-parse', f'{c}^{{tree}}')}": c for c in study.commits}
    seeds: dict[str, set[int]] = {}
    for run in study.paths.runs():
        spec = read_run(run).record.spec
        provenance = json.loads(run.attempt(1).provenance.read_text())
        assert spec.code is not None
        assert trees[spec.code] == provenance["code"]["commit"]
        assert [] == provenance["code"]["dirty"]
        seeds.setdefault(spec.code, set()).add(spec.seed)
        assert study.result["root"] == spec.root != 0
    assert {code: {0, 1, 2, 3} for code in trees} == seeds


def test_changes_that_are_not_committed_play_no_part(study: Study) -> None:
    """A working tree that is broken changes nothing, is left as it is, and is named."""
    assert "Changes that are not committed are no part" in study.printed.err
    assert "(1 file)" in study.printed.err
    assert "M rewards.py" == git(study.folder, "status", "--porcelain")
    assert 1 == len(git(study.folder, "worktree", "list").splitlines())


def test_after_a_kill_the_numbers_are_those_of_one_go(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same command in a fresh copy without a kill gives the same scores and the same effects."""
    for module in (local, separate_process):
        warm_up(monkeypatch, module)
    folder = tmp_path / "copy"
    git(study.folder, "clone", "--quiet", str(study.folder), str(folder))
    again = ablated(folder, "--json").document("ablation")
    assert study.result["effects"] == again["effects"]
    assert scores(study.paths) == scores(ExperimentPaths(folder / "runs" / "range"))


def test_the_frozen_command_continues_with_the_same_commits(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command on record names hashes, starts nothing when all is decided, and everything is intact."""
    warm_up(monkeypatch, separate_process)
    command = json.loads(study.paths.ablation.read_text())["command"]
    first, _, last = study.commits
    assert f"{first[:12]}..{last[:12]}" in command
    before = study.paths.ledger.read_bytes()
    again = rlexp(study.folder, *command[1:])
    assert study.result["effects"] == again.document("ablation")["effects"]
    assert before == study.paths.ledger.read_bytes()
    verified = typed(study.folder, "verify", "range")
    assert 0 == verified.code, verified.out
    assert last in git(study.folder, "for-each-ref")


def test_a_score_that_was_edited_is_noticed(study: Study) -> None:
    """The journals of the runs hold their scores, and the ledger has their sums."""
    journal = next(study.paths.runs()[0].folder.rglob("events.jsonl"))
    before = journal.read_bytes()
    try:
        journal.write_bytes(before.replace(b'"final":true', b'"final": true'))
        assert before != journal.read_bytes()
        assert 0 != typed(study.folder, "verify", "range").code
    finally:
        journal.write_bytes(before)


def test_a_bundle_has_what_was_compared(study: Study) -> None:
    """The definition of an ablation is a file of a bundle, without which its ledger has a fault."""
    assert "ablation.json" in record_files(study.paths, models=False).bundled


def test_the_section_and_the_short_table_name_commits(study: Study) -> None:
    """The report has the section with a figure, and the terminal shows hash, subject and effect."""
    second = study.commits[1][:7]
    report = typed(study.folder, "report", "range", "--set", "section=[ablation]")
    assert 0 == report.code, report.err
    pages = [p.read_text() for p in study.folder.rglob("*.html")]
    assert any(f"{second} (Pay more)" in page and "all commits" in page for page in pages)


def test_a_commit_that_cannot_be_imported_has_failed_runs(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its runs fail visibly with the reason, and the command ends with the name of one of them."""
    for module in (local, separate_process):
        warm_up(monkeypatch, module)
    folder = tmp_path / "copy"
    git(study.folder, "clone", "--quiet", str(study.folder), str(folder))
    (folder / "lamps.py").write_text("def broken(:\n")
    commit(folder, "Break it")
    with pytest.raises(RecordError, match="4 runs that ended without a score"):
        rlexp(folder, "ablate", "--commits", "HEAD~1..HEAD", *WORDS, *DESIGN)
    records = [read_run(run).record for run in ExperimentPaths(folder / "runs" / "range").runs()]
    assert 4 == sum("SyntaxError" in (r.reason or "") for r in records)
    assert 4 == sum(r.score is not None for r in records)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a merge, a commit without files, a revert, and a commit that changes the budget."""
    folder = tmp_path_factory.mktemp("history")
    git(folder, "init", "--quiet", "--initial-branch=main")
    for text in ("one", "two"):
        (folder / "file").write_text(text)
        commit(folder, text)
        git(folder, "tag", text)
    git(folder, "checkout", "--quiet", "-b", "side", "one")
    (folder / "other").write_text("side")
    commit(folder, "side")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-ff", "--message", "merge", "side")
    git(folder, "tag", "merge")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "empty")
    git(folder, "tag", "empty")
    git(folder, "revert", "--no-edit", "--mainline", "1", "merge")
    git(folder, "tag", "revert")
    return folder


def test_a_range_follows_first_parents(history: Path) -> None:
    """A merge is one step, and the commits that it merged are none."""
    commits = read_commits("one..empty", history)
    assert ["one", "two", "merge", "empty"] == [c.subject for c in commits]
    assert commits[2].tree == commits[3].tree
    assert commits == read_commits("one..empty", history / ".git" / "..")
    assert f"{commits[1].hash[:7]} (two)" == commits[1].name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("one", "is no range of commits: write FIRST..LAST"),
        ("one...two", "is no range of commits"),
        ("..two", "is no range of commits"),
        ("none..two", "git does not find the commit 'none'"),
        ("--all..two", "git does not find the commit '--all'"),
        ("two..two", "is empty: "),
        ("two..one", "is empty: "),
        ("side..main", "is not among the first parents of"),
        ("one..revert", "has the same files as "),
        ("merge..empty", "all its commits have the same files"),
    ],
)
def test_a_wrong_range_is_refused(history: Path, text: str, problem: str) -> None:
    """Each error says on one line what is wrong with the range, and what to type."""
    with pytest.raises(ConfigError, match=problem) as refused:
        read_commits(text, history)
    assert "\n" not in str(refused.value)


def test_a_long_range_is_refused_with_a_shorter_one(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the longest range to the same commit that is allowed, and this one is taken."""
    monkeypatch.setattr(commit_range, "MOST_COMMITS", 3)
    with pytest.raises(ConfigError, match="4 commits, and an ablation takes at most 3") as refused:
        read_commits("one..empty", history)
    shorter = str(refused.value).rpartition(" ")[2]
    assert ["two", "merge", "empty"] == [c.subject for c in read_commits(shorter, history)]


def test_a_folder_outside_of_git_is_refused(tmp_path: Path) -> None:
    """Without a repository, there are no commits."""
    with pytest.raises(RecordError, match="not in a git checkout"):
        read_commits("a..b", tmp_path)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("range",), "leave out range"),
        (("--path",), "leave out --path"),
        (("tracker=tensorboard",), "rlexp sync"),
        (("executor=pull",), "executor=local"),
        (("seeds.test=3",), "--max-seeds"),
        (("algorithm.gamma=0.9,0.99",), "the words select 2"),
        (("algorithm.gama=0.9",), "Pay more|first"),
    ],
)
def test_words_that_do_not_fit_are_refused(
    study: Study, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    """Targets, trackers, workers elsewhere and several configurations are refused before anything starts."""
    warm_up(monkeypatch, separate_process)
    before = study.paths.ledger.read_bytes()
    with pytest.raises(RlexpError, match=problem):
        ablated(study.folder, *words)
    assert before == study.paths.ledger.read_bytes()


def test_a_commit_that_changes_the_task_is_refused(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A commit whose options mean another environment is named with both values."""
    warm_up(monkeypatch, separate_process)
    folder = tmp_path / "copy"
    git(study.folder, "clone", "--quiet", str(study.folder), str(folder))
    option = folder / "conf" / "environment" / "lamps.yaml"
    option.write_text(option.read_text() + "max_episode_steps: 4\n")
    commit(folder, "Shorten episodes")
    with pytest.raises(ConfigError, match=r"\(Shorten episodes\) changes environment\."):
        ablated(folder)
    assert not (folder / "runs" / "range").exists()
