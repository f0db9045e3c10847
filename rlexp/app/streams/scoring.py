"""The valid scores, which the trusted checkout computes in a separate process."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.streams.separate_process import ask
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, from_plain
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.stream import ScoredRun
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.scorings import write_scoring
from rlexp.temporary_folders import scratch

MODULE = "rlexp.app.streams.scoring_process"


def score_runs(
    paths: ExperimentPaths,
    records: Sequence[RunRecord],
    checkout: Checkout,
    workspace: Workspace,
    *,
    lean: bool,
) -> list[ScoredRun]:
    """Score the policies of runs that have ended for good.

    Args:
        paths: The stream.
        records: The records of the runs, of which nothing but state and reason is read.
        checkout: The trusted code.
        workspace: The workspace.
        lean: Whether shortcuts are used that change no number.
    """
    with scratch("rlexp-scoring-") as (folder, _):
        copies = {r.spec.id: folder / r.spec.id for r in records if r.state is State.COMPLETED}
        sums = {
            i: _copy(paths.run(r.spec.name), copies[i])
            for r in records
            if (i := r.spec.id) in copies
        }
        questions = [
            {"id": r.spec.id, "spec": r.spec.plain(), "files": str(copies[r.spec.id])}
            for r in records
            if sums.get(r.spec.id) is not None
        ]
        answers = _ask(questions, checkout, workspace, lean=lean) if questions else {}
    return [_scored(r, sums.get(r.spec.id), answers.get(r.spec.id)) for r in records]


def check_learner(
    spec: RunSpec, checkout: Checkout, workspace: Workspace, *, code: str, lean: bool
) -> None:
    """Refuse a candidate whose learner the trusted code cannot build, before anything is trained.

    Args:
        spec: A run of the candidate.
        checkout: The trusted code.
        workspace: The workspace.
        code: The digest of the trusted code.
        lean: Whether shortcuts are used that change no number.

    Raises:
        ConfigError: Why it cannot be built.
    """
    question = {"id": spec.id, "spec": spec.plain(), "files": None}
    problem = _ask([question], checkout, workspace, lean=lean)[spec.id]["problem"]
    if problem is not None and spec.code == code:
        # The candidate has this code, too: its settings are wrong.
        raise ConfigError(f"the candidate cannot be trained: {problem}")
    if problem is not None:
        raise ConfigError(
            f"the code of the first champion, which scores every policy, cannot build this one: "
            f"{problem}; classes of an agent or an algorithm must exist when a stream begins",
            code="protected",
        )


def _ask(
    questions: Sequence[Mapping[str, Any]],
    checkout: Checkout,
    workspace: Workspace,
    *,
    lean: bool,
) -> dict[str, Any]:
    question = {
        "folder": str(checkout.folder),
        "allowed": list(workspace.allowed),
        "lean": lean,
        "policies": list(questions),
    }
    scores: dict[str, Any] = ask(MODULE, question, checkout)["scores"]
    return scores


def policy_sum(run: RunPaths) -> str | None:
    """The sha256 of the files of a policy; None where the model is missing."""
    with scratch("rlexp-scoring-") as (folder, _):
        return _copy(run, folder / "policy")


def _copy(run: RunPaths, target: Path) -> str | None:
    """Copy the files of a policy; returns the sha256 of them, or None where the model is missing.

    What is scored is the copy, so that a process of the candidate can no longer replace it.
    """
    target.mkdir()
    total = sha256()
    for source in (run.model, run.normalisation):
        try:
            # A link is refused: it could lead to the policy of another run.
            content = read_file(source)
        except FileNotFoundError:
            if source == run.model:
                shutil.rmtree(target)
                return None
            continue
        except OSError as error:
            raise RecordError(f"{source} cannot be read: {error.strerror}") from error
        (target / source.name).write_bytes(content)
        total.update(f"{source.name}:{len(content)}:".encode() + content)
    return total.hexdigest()


def _scored(record: RunRecord, policy: str | None, answer: Mapping[str, Any] | None) -> ScoredRun:
    evaluation, problem = None, None
    if answer is None:
        kind = f" ({record.failure})" if record.failure else ""
        reason = f": {record.reason}" if record.reason else ""
        problem = f"the training ended as {record.state}{kind}{reason}"
        if record.state is State.COMPLETED:
            problem = "the training left no model.zip"
    elif answer["problem"] is not None:
        problem = answer["problem"]
    else:
        event = from_plain(answer["evaluation"])
        evaluation = event if isinstance(event, Evaluated) else None
    score = None if evaluation is None else evaluation.mean_of(record.spec.quantity)
    if score is not None and not abs(score) <= LARGEST_SCORE:
        score, problem = None, f"its score {score} is no possible number"
    return ScoredRun(
        time=time.time(),
        run=record.spec.name,
        id=record.spec.id,
        policy=policy,
        evaluation=evaluation,
        score=score,
        problem=problem,
    )


def publish_scores(paths: ExperimentPaths, scored: Sequence[ScoredRun]) -> None:
    """Write scores into the folders of their runs, and then enter the checksums in the ledger.

    This process holds the lock of the experiment.
    """
    # A run that `rlexp rm` has removed must not become a folder without a run.
    present = [(run, each) for each in scored if (run := paths.run(each.run)).spec.exists()]
    for run, each in present:
        write_scoring(run, each.evaluation)
    LedgerWriter(paths).enter_scorings(run for run, _ in present)


def scores_of(specs: Sequence[RunSpec], scored: Mapping[str, ScoredRun]) -> Iterator[float | None]:
    """The scores of runs in order, up to the first that has not been scored; None for a failure."""
    for spec in specs:
        if spec.id not in scored:
            return
        yield scored[spec.id].score
