"""Candidates that are settings: what is refused, what is spent, and what survives."""

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from bundled_studies import SHORT, quick_bundles, replace_text, sum_again, verified
from command_line import give, rlexp, typed
from stream_studies import DESIGN
from warm_processes import warm_up

from rlexp.app.commands.judge.ablate_source import read_source, read_words
from rlexp.app.observer import SilentObserver
from rlexp.app.streams import separate_process
from rlexp.app.streams.handed_scoring import answer_of, order_scores, serve_scores
from rlexp.app.streams.next_commands import needed_seeds
from rlexp.app.sweeps.retrain import SweepTrial, best_trial, request_trial_again
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, HeldError, RecordError
from rlexp.executors import local
from rlexp.records.ledger import SealedScoring
from rlexp.records.stream import CandidateVerdict, ScoredRun, StreamBeginning, plain_line
from rlexp.store.files import publish_json
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ledger import read_ledger
from rlexp.store.registers.scorings import write_scoring
from rlexp.store.registers.streams import append_to_stream, read_stream
from rlexp.store.runs import read_experiment, read_run
from rlexp.store.sweeps import read_trials

WORDS = (
    *("algorithm=ppo", "environment=cartpole", "budget.steps=256", "algorithm.n_steps=128"),
    *("budget.evaluation_every=64", "budget.evaluation_episodes=1", "budget.final_episodes=5"),
    *("seeds.tuning=4", "seeds.test=2"),
)
BETTER = ("algorithm.learning_rate=3e-2", "algorithm.n_epochs=20")


DIFFERS = "differs from the ledger"
COUNTS = ("n", "won", "lost")
"""Columns of the table of candidates that are counts of seeds."""


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace outside of git whose stream has kept one candidate."""
    folder = tmp_path_factory.mktemp("settings")
    with pytest.MonkeyPatch.context() as patch:
        for module in (local, separate_process):
            warm_up(patch, module)
        rlexp(folder, "propose", "s", "--begin", *WORDS, *DESIGN)
        kept = rlexp(folder, "propose", "s", *BETTER, "--json", "-q")
        assert 0 == kept.code, kept.out
        yield folder


@pytest.fixture
def copied(tmp_path: Path, stream: Path) -> ExperimentPaths:
    """A copy of the stream, which a test may damage."""
    shutil.copytree(stream / "runs", tmp_path / "runs")
    return ExperimentPaths(tmp_path / "runs" / "s")


def test_scores_that_count_are_those_of_the_training(stream: Path) -> None:
    """Where nobody cheats, the trusted code computes bit by bit what the training process has claimed."""
    paths = ExperimentPaths(stream / "runs" / "s")
    for scored in read_stream(paths).scored.values():
        events = paths.run(scored.run).attempt(1).journal.read_text().splitlines()
        claims = [event for line in events if (event := json.loads(line)).get("final")]
        assert scored.evaluation is not None
        assert [list(scored.evaluation.returns)] == [claim["returns"] for claim in claims]
        assert read_run(paths.run(scored.run)).record.score == scored.score


def test_the_same_candidate_again_spends_nothing(stream: Path) -> None:
    """A candidate is its digest: in another order of words it shows the earlier decision."""
    before = (stream / "runs" / "s" / "candidates.jsonl").read_bytes()
    again = rlexp(stream, "propose", "s", *reversed(BETTER), "--json").document("stream")
    assert ("kept", 1, True) == (again["answer"], again["candidate"], again["earlier"])
    assert again["alpha_spent"] == pytest.approx(0.3)
    assert before == (stream / "runs" / "s" / "candidates.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("environment.id=Acrobot-v1", "environment.id"),
        ("environment=acrobot", "environment"),
        ("seeds.root=1", "seeds.root"),
        ("budget.steps=512", "budget.steps"),
        ("budget.final_episodes=1", "budget.final_episodes"),
        ("compute.threads=2", "compute.threads"),
        ("phase=test", "phase"),
        ("failures=worst", "failures"),
    ],
)
def test_frozen_words_are_refused_by_name(stream: Path, word: str, key: str) -> None:
    """Words that change the task, the seeds, the evaluation or the budget are refused before training."""
    with pytest.raises(ConfigError, match="a stream has frozen") as refused:
        rlexp(stream, "propose", "s", word)
    assert ("protected", key) == (refused.value.code, refused.value.key)


def test_a_stream_shows_itself_in_every_listing(stream: Path) -> None:
    """`propose`, `show`, `status`, `ls` and `verify` read a stream that goes on."""
    shown = rlexp(stream, "propose", "s").out
    assert "champion: tuned (trial 1)" in " ".join(shown.split())
    assert "spent 0.3, left 0.6" in " ".join(shown.split())
    for command in (("show", "s"), ("status", "s"), ("ls",), ("ls", "s"), ("verify", "s")):
        listed = typed(stream, *command)
        assert 0 == listed.code, (command, listed.err)
        assert (
            "trial 1" in listed.out
            or "1 candidate, 1 decision" in listed.out
            or "s " in listed.out
        )


def test_other_commands_leave_a_stream_alone(stream: Path) -> None:
    """Nothing but `rlexp propose` trains runs of a stream, so test seeds are touched nowhere else."""
    for command in (
        ("resume", "s"),
        ("sweep", "s"),
        ("run", *WORDS, "experiment=s"),
        ("compare", "s", "--adaptive"),
        ("extend", "s", "--to", "512"),
    ):
        refused = typed(stream, *command)
        assert refused.code != 0, command
    assert not list((stream / "runs" / "s").glob("*-test-*"))
    assert 0 == typed(stream, "resume").code


def test_sentences_of_a_stream_are_folded_by_the_terminal_alone(stream: Path) -> None:
    """Each sentence is one line in a pipe, and each row of the table has its number of seeds."""
    lines = rlexp(stream, "propose", "s").out.splitlines()
    assert "s takes candidates; champion: tuned (trial 1)." == lines[0]
    (frozen,) = [line for line in lines if line.startswith("Stream: ")]
    assert "scored by the code of this folder, which has no git commit" in frozen
    (alpha,) = [line for line in lines if line.startswith("Alpha: ")]
    assert alpha.endswith("at the earliest")
    head, row = next((h, r) for h, r in pairwise(lines) if r.lstrip().startswith("1  kept"))
    n, won, lost = (int(row.split()[head.split().index(name) + 1]) for name in COUNTS)
    assert n >= won + lost >= 1


def test_another_stream_of_the_same_name_is_refused_in_words(stream: Path) -> None:
    """The message says what differs without the notation of a programming language."""
    with pytest.raises(RecordError, match=r"with other words \(algorithm=ppo ") as refused:
        rlexp(stream, "propose", "s", "--begin")
    assert "and now none)" in str(refused.value)
    assert "('" not in str(refused.value)


def test_a_run_of_the_name_of_a_stream_is_sent_to_its_command(stream: Path) -> None:
    """`rlexp run` names the command that continues a stream, which `rlexp sweep` does not."""
    with pytest.raises(RecordError, match="is a stream of candidates") as refused:
        rlexp(stream, "run", *WORDS, "experiment=s")
    assert "rlexp propose s" == refused.value.command


def test_a_stream_that_was_moved_is_named(copied: ExperimentPaths) -> None:
    """The former name of a stream leads to its present one."""
    folder = copied.folder.parents[1]
    assert 0 == typed(folder, "mv", "s", "later").code
    with pytest.raises(RecordError, match="experiment s is now later"):
        rlexp(folder, "propose", "s", "algorithm.gamma=0.9")
    with pytest.raises(RecordError, match="experiment s is now later"):
        rlexp(folder, "propose", "s", "--begin", *WORDS, *DESIGN)
    assert not (folder / "runs" / "s").exists()


def test_a_wrong_setting_is_answered_as_a_setting(stream: Path) -> None:
    """A learner that no code could build is explained by its settings, without a word about classes."""
    with pytest.raises(
        ConfigError, match=r"the candidate cannot be trained: .*batch_size"
    ) as wrong:
        rlexp(stream, "propose", "s", "algorithm.n_steps=7", "algorithm.batch_size=64")
    assert "classes" not in str(wrong.value)


@pytest.mark.parametrize("trial", [None, 0, 1])
def test_test_seeds_of_an_open_stream_stay_unused(stream: Path, trial: int | None) -> None:
    """`--from-sweep` refuses the test seeds of a stream that goes on, and otherwise takes others."""
    workspace = Workspace.here(folder=stream)
    with pytest.raises(ConfigError, match="its test seeds must stay unused"):
        request_trial_again(SweepTrial("s", trial), ("seeds.root=0",), workspace)
    with pytest.raises(ConfigError, match="its test seeds must stay unused"):
        request_trial_again(
            SweepTrial("s", trial), ("seeds.root=0", "algorithm.gamma=0.9"), workspace
        )
    root = read_experiment(ExperimentPaths(stream / "runs" / "s")).seeds.root
    for words in ((), ("algorithm.gamma=0.9",)):
        request = request_trial_again(SweepTrial("s", trial), words, workspace)
        assert request.experiment.seeds.root == root + 1


def test_the_status_of_a_stream_speaks_of_candidates(stream: Path) -> None:
    """It names no stage of a sweep, and its commands are accepted by `rlexp propose`."""
    listed = typed(stream, "status", "s")
    first, candidate, *commands = listed.out.splitlines()
    assert "s (unfinished): takes candidates: 1 candidate decided (1 kept)" in first
    assert "champion tuned (trial 1)" in first
    assert "candidate 1 kept: " in candidate
    assert "selection" not in listed.out
    assert commands[0].endswith("rlexp propose s algorithm.gamma=0.98")
    assert commands[1].endswith("rlexp propose s --final")
    assert "takes candidates" in typed(stream, "status").out
    shown = rlexp(stream, "propose", "s", "--json").document("stream")["next"]
    assert [each["command"] for each in shown] == [line.split(": ", 1)[1] for line in commands]


def test_a_run_that_waits_for_its_score_has_not_failed(copied: ExperimentPaths) -> None:
    """Killed between training and scoring, the candidate is open in `status`, and its command finishes it."""
    written = copied.candidates.read_bytes().splitlines(keepends=True)
    copied.candidates.write_bytes(b"".join(written[:2]))
    for run in copied.runs():
        run.scoring.unlink()
    listed = typed(copied.folder.parents[1], "status", "s").out
    assert "0 candidates decided (0 kept), 1 open" in listed
    assert "failed" not in listed
    assert "rlexp propose s --continue" in listed


def test_a_report_before_the_test_fails_no_check(stream: Path, tmp_path: Path) -> None:
    """It says in one line that there is no test run yet, and `--strict` still refuses it."""
    written = typed(stream, "report", "s", "--output", str(tmp_path / "report"))
    assert 0 == written.code
    assert "Check failed" not in written.out
    assert 1 == written.out.count("Not yet a result: s takes candidates")
    assert 3 == typed(stream, "report", "s", "--output", str(tmp_path / "report"), "--strict").code


def test_the_champion_of_a_stream_is_its_best_trial(copied: ExperimentPaths) -> None:
    """A kept candidate is what `--from-sweep` trains, also where its mean is not the largest one."""
    trials = read_trials(copied)
    for scored in read_stream(copied).scored.values():
        kept = read_run(copied.run(scored.run)).record.spec
        configuration = trials[1].configuration
        assert scored.evaluation is not None
        assert configuration is not None
        if kept.fingerprint == configuration.fingerprint:
            low = replace(scored.evaluation, returns=(1.0,) * len(scored.evaluation.returns))
            write_scoring(copied.run(scored.run), low)
    assert 1 == best_trial(copied, Workspace.here(folder=copied.folder.parents[1]))


def test_best_has_the_proposed_settings_and_saves_them(copied: ExperimentPaths) -> None:
    """The best candidate is shown with its changes, and the printed command writes a benchmark of them."""
    folder = copied.folder.parents[1]
    best = rlexp(folder, "best", "s", "--json").document("best")
    rows = {row["parameter"]: (row["default"], row["value"]) for row in best["parameters"]}
    assert {"algorithm.learning_rate": (0.0003, 0.03), "algorithm.n_epochs": (10, 20)} == rows
    (save,) = [n["command"] for n in best["next"] if "--save" in n["command"]]
    assert 0 == typed(folder, *shlex.split(save)[1:]).code
    assert "n_epochs: 20" in (folder / "conf" / "benchmark" / "s_best.yaml").read_text()


def test_an_ablation_of_a_stream_waits_for_its_test(
    copied: ExperimentPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without a test is refused with the command that closes it; after that, its changes are ablated."""
    folder = copied.folder.parents[1]
    with pytest.raises(RecordError, match="finish the stream with") as refused:
        rlexp(folder, "ablate", "s", "--dry-run")
    assert "rlexp propose s --final" == refused.value.command
    for module in (local, separate_process):
        warm_up(monkeypatch, module)
    closed = typed(folder, *shlex.split(refused.value.command)[1:], "-q")
    assert 0 == closed.code, closed.err
    # A stream has no table of a search space, and no empty line in its place.
    assert "tuned (trial 1):" not in closed.out
    plan = rlexp(folder, "ablate", "s", "--dry-run")
    assert 0 == plan.code, plan.err
    assert "n_epochs: 10 → 20" in plan.out
    assert "code" not in plan.out


def test_a_stream_is_bundled_with_its_register(
    copied: ExperimentPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle of a stream verifies, with its candidates and scores; an edited decision is named."""
    quick_bundles(monkeypatch)
    folder = copied.folder.parents[1]
    give(folder, "bundle", "s", "-o", "bundle", *SHORT)
    code, lines = verified(folder)
    assert 0 == code, lines
    assert any("stream s: 1 candidate, 1 decision" in line for line in lines)
    register = folder / "bundle/runs/s/candidates.jsonl"
    assert copied.candidates.read_bytes() == register.read_bytes()
    (ledger,) = json.loads((folder / "bundle/bundle.json").read_text())["ledgers"]
    assert read_stream(copied).head == ledger["candidates"]
    whole = register.read_bytes()
    register.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    sum_again(folder / "bundle")
    code, lines = verified(folder)
    assert (1, True) == (code, any(line.startswith("other head: a register") for line in lines))
    register.write_bytes(whole)
    replace_text(register, '"state":"kept"', '"state":"discarded"')
    sum_again(folder / "bundle")
    code, lines = verified(folder)
    assert (1, True) == (code, any(x.startswith("fault: register of candidates") for x in lines))


@pytest.mark.parametrize(
    "words",
    [["--final", "--continue"], ["algorithm.gamma=0.9", "--final"], ["--continue", "--diff", "x"]],
)
def test_closing_a_stream_stands_alone(stream: Path, words: list[str]) -> None:
    """A command that closes a stream, or continues a candidate, is refused beside anything else."""
    before = (stream / "runs/s/candidates.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="does not go with"):
        rlexp(stream, "propose", "s", *words)
    assert before == (stream / "runs/s/candidates.jsonl").read_bytes()


def test_a_candidate_that_could_never_be_kept_is_not_entered(stream: Path, tmp_path: Path) -> None:
    """Once the level needs more seeds than the stream has, a candidate spends nothing and is not suggested."""
    few = [word for word in WORDS if not word.startswith("seeds.tuning")]
    rlexp(tmp_path, "propose", "s", "--begin", *few, "seeds.tuning=6", "--alpha", "0.99")
    paths = ExperimentPaths(tmp_path / "runs" / "s")
    kept = read_stream(ExperimentPaths(stream / "runs" / "s"))
    opened, decision = kept.candidates[0], kept.decisions[1]
    lost = replace(decision, state=CandidateVerdict.DISCARDED)
    while needed_seeds(read_stream(paths)) is not None:
        number = len(read_stream(paths).candidates) + 1
        candidate = replace(opened, number=number, fingerprint=f"{number}")
        append_to_stream(paths, candidate, replace(lost, candidate=number))
    before = paths.candidates.read_bytes()
    with pytest.raises(
        RecordError, match=r"could never be kept: its level 0\.0155 takes 7 won seeds"
    ):
        rlexp(tmp_path, "propose", "s", "algorithm.gamma=0.9")
    assert before == paths.candidates.read_bytes()
    shown = rlexp(tmp_path, "propose", "s", "--json").document("stream")["next"]
    assert ["rlexp propose s --final"] == [each["command"] for each in shown]


def test_a_suggested_candidate_has_not_been_judged(copied: ExperimentPaths) -> None:
    """The next command proposes a value that no candidate of the stream has proposed."""
    register = read_stream(copied)
    words = ("algorithm.gamma=0.98",)
    judged = replace(
        register.candidates[0], number=2, fingerprint="2", words=words, champion=1, level=0.6
    )
    lost = replace(register.decisions[1], state=CandidateVerdict.DISCARDED)
    append_to_stream(copied, judged, replace(lost, candidate=2, champion=1, level=0.6))
    shown = typed(copied.folder.parents[1], "propose", "s").out
    assert "rlexp propose s algorithm.gamma=0.97" in shown


def test_a_misspelt_group_is_named(stream: Path) -> None:
    """A word whose group does not exist is answered with the group that was meant."""
    with pytest.raises(ConfigError, match="did you mean 'algorithm'"):
        rlexp(stream, "propose", "s", "algoritm.gamma=0.9")


def test_a_second_command_is_refused_by_the_lock(stream: Path) -> None:
    """While one command judges, another one is refused, and the holder is named."""
    paths = ExperimentPaths(stream / "runs" / "s")
    with hold(paths.lock, "stream s", now=0.0), pytest.raises(HeldError, match="stream s"):
        rlexp(stream, "propose", "s", "algorithm.gamma=0.9")


def test_an_edited_register_ends_the_stream(copied: ExperimentPaths) -> None:
    """An edited line gives exit code 1 of `verify`, and no candidate is judged any more."""
    text = copied.candidates.read_text()
    copied.candidates.write_text(text.replace('"state":"kept"', '"state":"discarded"'))
    folder = copied.folder.parents[1]
    verified = typed(folder, "verify", "s")
    assert 1 == verified.code
    assert "checksum" in verified.out
    with pytest.raises(RecordError, match="was changed") as refused:
        rlexp(folder, "propose", "s", "algorithm.gamma=0.9")
    assert "changed_register" == refused.value.code


def test_a_decision_that_does_not_follow_is_found(copied: ExperimentPaths) -> None:
    """A register that was written anew, with valid sums and another score, does not give its decision."""
    lines = read_stream(copied).lines
    copied.candidates.unlink()
    first = next(n for n, line in enumerate(lines) if isinstance(line, ScoredRun))
    changed = lines[first]
    assert isinstance(changed, ScoredRun)
    append_to_stream(copied, *lines[:first], replace(changed, score=9.5), *lines[first + 1 :])
    assert not read_stream(copied).breaks
    verified = typed(copied.folder.parents[1], "verify", "s")
    assert 1 == verified.code
    assert "does not follow from its scores" in verified.out


def test_a_register_that_was_cut_is_found_by_its_trials(copied: ExperimentPaths) -> None:
    """Lines taken from the end leave a valid chain; the trials show that a candidate is missing."""
    lines = copied.candidates.read_bytes().splitlines(keepends=True)
    copied.candidates.write_bytes(lines[0])
    verified = typed(copied.folder.parents[1], "verify", "s")
    assert 1 == verified.code
    assert "lines were cut from its end" in verified.out


def test_a_changed_score_in_a_run_is_found(copied: ExperimentPaths) -> None:
    """A score that was edited beside a run differs from the register."""
    run = next(run for run in copied.runs() if run.scoring.exists())
    run.scoring.write_text(run.scoring.read_text().replace('"step": 256', '"step": 255'))
    verified = typed(copied.folder.parents[1], "verify", "s")
    assert 1 == verified.code
    assert "is not the score in the register" in verified.out


def test_an_edited_score_is_named_wherever_it_is_shown(copied: ExperimentPaths) -> None:
    """The ledger holds the sum of every `scoring.json`, so that each command names the run that differs."""
    folder = copied.folder.parents[1]
    run = next(run for run in copied.runs() if run.scoring.exists())
    for words in (("ls", "s"), ("show", "s"), ("compare", "s", "--phase", "tuning")):
        printed = typed(folder, *words)
        assert DIFFERS not in printed.out + printed.err
    run.scoring.write_text(run.scoring.read_text().replace('"step": 256', '"step": 255'))
    for words in (("ls", "s"), ("show", "s"), ("compare", "s", "--phase", "tuning")):
        printed = typed(folder, *words)
        shown = " ".join(f"{printed.out} {printed.err}".split())
        assert f"1 run {DIFFERS} ({run.folder.name})" in shown
    verified = typed(folder, "verify", "s")
    assert f"edited: s/{run.folder.name}: scoring.json is not what was written" in verified.out
    run.scoring.unlink()
    assert (
        f"missing: s/{run.folder.name}: scoring.json is gone" in typed(folder, "verify", "s").out
    )


def test_a_kill_before_the_sum_of_a_score_is_no_fault(
    copied: ExperimentPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A score that a killed command did not enter is named, is no fault, and is entered by the next command."""
    warm_up(monkeypatch, separate_process)
    ledger = read_ledger(copied)
    assert ledger is not None
    scored = sum(run.scoring.exists() for run in copied.runs())
    assert scored == sum(isinstance(e, SealedScoring) for e in ledger.entries)
    lines = copied.ledger.read_bytes().splitlines(keepends=True)
    assert b'"kind":"scoring"' in lines[-1]
    copied.ledger.write_bytes(b"".join(lines[:-1]))
    opened = copied.candidates.read_bytes().splitlines(keepends=True)
    copied.candidates.write_bytes(b"".join(opened[:-1]))
    folder = copied.folder.parents[1]
    verified = typed(folder, "verify", "s")
    assert (0, True) == (verified.code, "1 score of" in verified.out), verified.out
    assert 0 == rlexp(folder, "propose", "s", "--continue", "-q").code
    assert lines[-1] in copied.ledger.read_bytes().splitlines(keepends=True)
    assert "unsealed" not in typed(folder, "verify", "s").out


def test_seeds_that_can_keep_nothing_are_refused(tmp_path: Path) -> None:
    """A stream that could never keep its first candidate does not begin, and says how many seeds can."""
    with pytest.raises(ConfigError, match="it takes 10 seeds, all of them won"):
        rlexp(tmp_path, "propose", "s", "--begin", *WORDS)
    assert not (tmp_path / "runs" / "s" / "candidates.jsonl").exists()


def test_a_score_of_the_curve_is_refused(tmp_path: Path) -> None:
    """Evaluations during training are made by the code of a candidate, and can be no score."""
    with pytest.raises(ConfigError, match="reads evaluations during training"):
        rlexp(tmp_path, "propose", "s", "--begin", *WORDS, *DESIGN, "budget.score=auc")


def test_an_unknown_stream_names_the_command_that_begins_one(tmp_path: Path) -> None:
    """A candidate for a stream that does not exist is refused with the words to type."""
    with pytest.raises(RecordError, match="rlexp propose loop --begin") as refused:
        rlexp(tmp_path, "propose", "loop", "algorithm.gamma=0.9")
    assert "unknown_experiment" == refused.value.code


def test_a_worker_scores_what_is_ordered(
    copied: ExperimentPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker in the trusted code answers orders with the same scores; a forged register differs from them."""
    warm_up(monkeypatch, separate_process)
    folder = copied.folder.parents[1]
    records = [read_run(run).record for run in copied.runs()][:2]
    results: list[ScoredRun] = []
    command = Thread(
        target=lambda: results.extend(order_scores(copied, records, SilentObserver())),
        daemon=True,
    )
    command.start()
    workspace = Workspace(folder, Layout(copied.folder.parent))
    answers = serve_scores(copied, workspace, command.is_alive, SilentObserver())
    command.join(20)
    assert 2 == answers == len(results)
    recorded = read_stream(copied).scored
    for result in results:
        before = recorded[result.id]
        assert (before.score, before.policy) == (result.score, result.policy)
    assert 0 == typed(folder, "verify", "s").code
    answer = answer_of(copied, results[0].run)
    line = replace(results[0], score=1.0)
    publish_json(answer, {"scored": plain_line(line)})
    verified = typed(folder, "verify", "s")
    assert 1 == verified.code
    assert "than scoring-answers" in verified.out


def test_a_worker_with_another_environment_is_refused(
    copied: ExperimentPaths, tmp_path: Path
) -> None:
    """A worker whose folder lacks what the stream has frozen scores nothing."""
    lines = read_stream(copied).lines
    copied.candidates.unlink()
    assert isinstance(lines[0], StreamBeginning)
    first = replace(lines[0], modules=("lamps",), protected={"lamps.py": "0" * 64})
    append_to_stream(copied, first, *lines[1:])
    workspace = Workspace(tmp_path, Layout(copied.folder.parent))
    with pytest.raises(RecordError, match=r"lacks lamps\.py"):
        serve_scores(copied, workspace, lambda: False, SilentObserver())


def test_the_winner_of_a_stream_is_trained_again_as_an_ordinary_run(stream: Path) -> None:
    """`--from-sweep` plans runs without the field of code, which their scores would need a stream for."""
    plan = rlexp(
        stream, "run", "--from-sweep", "s", "seeds.root=3", "experiment=again", "--dry-run"
    )
    assert 0 == plan.code, plan.err
    request = request_trial_again(
        SweepTrial("s", None), ("seeds.root=3", "experiment=again"), Workspace.here(folder=stream)
    )
    assert [None] == [c.code for c in request.experiment.configurations]


@pytest.mark.parametrize("lines", [2, -1])
def test_a_command_after_a_kill_comes_to_the_same_decision(
    copied: ExperimentPaths, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """Killed after the line that opens a candidate, or before its decision, the same command decides alike."""
    warm_up(monkeypatch, separate_process)
    before = read_stream(copied)
    written = copied.candidates.read_bytes().splitlines(keepends=True)
    copied.candidates.write_bytes(b"".join(written[:lines]))
    if lines == 2:
        # The trial of the candidate is written after the line of the register.
        first = copied.trials.read_bytes().splitlines(keepends=True)[0]
        copied.trials.write_bytes(first)
    folder = copied.folder.parents[1]
    again = rlexp(folder, "propose", "s", *BETTER, "--json", "-q")
    assert "kept" == again.document("stream")["answer"], again.err
    after = read_stream(copied)
    assert [replace(d, time=0.0) for d in before.decisions.values()] == [
        replace(d, time=0.0) for d in after.decisions.values()
    ]
    assert {i: s.score for i, s in before.scored.items()} == {
        i: s.score for i, s in after.scored.items()
    }
    assert 1 == len(after.candidates)
    assert 2 == len(copied.trials.read_bytes().splitlines())
    assert 0 == typed(folder, "verify", "s").code


def test_another_candidate_waits_for_the_open_one(copied: ExperimentPaths) -> None:
    """While a candidate is open, another one is refused, and the message has the command that finishes it."""
    written = copied.candidates.read_bytes().splitlines(keepends=True)
    copied.candidates.write_bytes(b"".join(written[:-1]))
    folder = copied.folder.parents[1]
    with pytest.raises(RecordError, match="rlexp propose s --continue"):
        rlexp(folder, "propose", "s", "algorithm.gamma=0.9")
    with pytest.raises(RecordError, match="rlexp propose s --continue"):
        rlexp(folder, "propose", "s", "--final")
    assert (
        "kept"
        == rlexp(folder, "propose", "s", "--continue", "--json").document("stream")["answer"]
    )


def test_an_ablation_of_a_stream_trains_ordinary_runs(stream: Path) -> None:
    """Runs outside of the stream have no field for code: only the stream scores runs that have one."""
    workspace = Workspace(stream, Layout(stream / "runs"))
    paths = ExperimentPaths(stream / "runs" / "s")
    assert all(c.code is not None for c in read_experiment(paths).configurations)
    words = read_words(["s/default", "algorithm.gamma=0.9"], workspace)
    endpoints = read_source(words, ("rlexp", "ablate"), workspace).endpoints
    assert (None, None) == (endpoints.old.code, endpoints.new.code)
    with pytest.raises(RecordError, match="rlexp propose s --final") as refused:
        rlexp(stream, "ablate", "s", "--dry-run")
    assert "rlexp propose s --final" == refused.value.command


def test_a_repeated_run_of_a_stream_is_scored_by_the_trusted_code(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rlexp reproduce` finds the same weights and the same score, and not a missing one."""
    for module in (local, separate_process):
        warm_up(monkeypatch, module)
    run = ExperimentPaths(stream / "runs" / "s").runs()[0]
    name = f"s/{run.folder.name}"
    again = rlexp(stream, "reproduce", name, "--json").document("reproduction")
    (compared,) = again["runs"]
    score = read_run(run).record.score
    assert score is not None
    assert {"then": score, "now": score} == compared["score"]
    assert ("identical", True) == (compared["verdict"], again["reproduced"])
