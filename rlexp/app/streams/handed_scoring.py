"""Scores that a worker computes: of another user, or on another machine, in the trusted code.

The command that judges writes an order for each policy. `rlexp worker STUDY --scores` answers it. Answers are
never removed: `rlexp verify` compares the register with them.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.observer import Observer
from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.streams.candidate_code import clean_commit, tree_of
from rlexp.app.streams.proposal import refuse_changed_workspace
from rlexp.app.streams.scoring import policy_sum, score_runs
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.budget import LEAN
from rlexp.records.run import RunRecord
from rlexp.records.stream import ScoredRun, StreamBeginning, line_from_plain, plain_line
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import intact_stream
from rlexp.store.runs import read_run

EVERY = 0.5
"""Seconds between two looks for orders, or for answers."""


def order_scores(
    paths: ExperimentPaths,
    records: Sequence[RunRecord],
    observer: Observer,
    permission: Sequence[str] = (),
) -> list[ScoredRun]:
    """Order the scores of runs, and wait for the answers of a worker.

    Args:
        paths: The stream.
        records: The records of the runs.
        observer: Receives the command of the worker.
        permission: The options of that command that allow the user's own code.

    Raises:
        RecordError: An answer is damaged, or is about another policy.
    """
    waiting = {record.spec.name: policy_sum(paths.run(record.spec.name)) for record in records}
    for name, policy in waiting.items():
        publish_json(_order(paths, name), {"run": name, "policy": policy})
    unanswered = [name for name in waiting if not answer_of(paths, name).exists()]
    if unanswered:
        command = shlex.join(_worker_command(paths, permission))
        observer.note(
            f"{len(unanswered)} policies wait for a worker with the trusted code: {command}"
        )
    while any(not answer_of(paths, name).exists() for name in waiting):
        time.sleep(EVERY)
    return [_answered(paths, name, policy) for name, policy in waiting.items()]


def _worker_command(paths: ExperimentPaths, permission: Sequence[str]) -> tuple[str, ...]:
    return ("rlexp", "worker", paths.name, "--scores", *permission)


def _order(paths: ExperimentPaths, run: str) -> Path:
    return paths.scoring_orders / f"{run}.json"


def answer_of(paths: ExperimentPaths, run: str) -> Path:
    """The file with the answer about a run."""
    return paths.scoring_answers / f"{run}.json"


def _answered(paths: ExperimentPaths, run: str, policy: str | None) -> ScoredRun:
    scored = read_answer(paths, run)
    if scored.run != run or scored.policy != policy:
        raise RecordError(
            f"{answer_of(paths, run)} is about another policy than that of {run}: the policy was "
            "replaced after its score was ordered"
        )
    return scored


def read_answer(paths: ExperimentPaths, run: str) -> ScoredRun:
    """The answer of a worker about a run.

    Raises:
        RecordError: It is missing or damaged.
    """
    line = line_from_plain(read_json(answer_of(paths, run))["scored"])
    if not isinstance(line, ScoredRun):
        raise RecordError(f"{answer_of(paths, run)} holds no score")
    return line


def serve_scores(
    paths: ExperimentPaths,
    workspace: Workspace,
    goes_on: Callable[[], bool],
    observer: Observer,
) -> int:
    """Answer orders until none has come for a while; returns the number of answers.

    Args:
        paths: The stream.
        workspace: A checkout of the trusted code.
        goes_on: Whether to wait for further orders.
        observer: Receives notes.

    Raises:
        RecordError: The workspace does not hold the trusted code, the register was changed, or an
            ordered score needs an import that is not allowed.
    """
    beginning = intact_stream(paths).beginning
    if beginning is None:
        raise RecordError(f"{paths.name} is no stream of candidates, which alone orders scores")
    command = _worker_command(paths, workspace.permission)
    check_code(paths, beginning, beginning.code, beginning.commit, workspace, command)
    answers = 0
    while True:
        orders = list(_open_orders(paths))
        if orders:
            _answer(paths, orders, beginning, workspace)
            answers += len(orders)
            observer.note(f"scored so far: {answers}")
        elif goes_on():
            time.sleep(EVERY)
        else:
            return answers


def check_code(
    paths: ExperimentPaths,
    beginning: StreamBeginning,
    code: str,
    commit: str | None,
    workspace: Workspace,
    command: Sequence[str],
) -> None:
    """Refuse to work in a folder that does not hold some code of a stream.

    Args:
        paths: The stream.
        beginning: What it has frozen.
        code: The digest that the code must have.
        commit: The commit with this code; None without git.
        workspace: The folder.
        command: The command of the worker.

    Raises:
        RecordError: What to type instead.
    """
    if beginning.commit is None:
        refuse_changed_workspace(beginning, Checkout(workspace.folder, own=False), paths.name)
        return
    words = shlex.join(command)
    present = clean_commit(workspace.folder, workspace.layout.root, "the worker's folder", words)
    if present is None or tree_of(workspace.folder, present) != code:
        folder = shlex.quote(f"../{paths.name.replace('/', '-')}-{code[:12]}")
        runs = shlex.quote(str(workspace.layout.root))
        start = f"git worktree add --detach {folder} {commit} && cd {folder} && RLEXP_RUNS={runs} {words}"
        raise RecordError(
            f"the folder of this worker does not hold the code {code[:12]}: start it in a checkout "
            f"of it: {start}",
            command=start,
        )


def _open_orders(paths: ExperimentPaths) -> Iterator[str]:
    """The names of the runs whose scores are ordered and not answered yet."""
    for path in sorted(paths.scoring_orders.glob("*.json")):
        if not answer_of(paths, path.stem).exists():
            yield path.stem


def _answer(
    paths: ExperimentPaths,
    runs: Sequence[str],
    beginning: StreamBeginning,
    workspace: Workspace,
) -> None:
    """Score some runs in one process, and publish an answer about each."""
    records = [read_run(paths.run(name)).record for name in runs]
    # An answer counts for good: a worker that may not import what a score needs gives none.
    command = _worker_command(paths, workspace.permission)
    check_imports([record.spec for record in records], workspace.allowed, command)
    checkout = Checkout(workspace.folder, own=False)
    lean = bool(beginning.operational.get(LEAN, True))
    for scored in score_runs(paths, records, checkout, workspace, lean=lean):
        publish_json(answer_of(paths, scored.run), {"scored": plain_line(scored)})
