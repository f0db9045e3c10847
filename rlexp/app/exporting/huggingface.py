"""A folder as the Hugging Face Hub shows it: a card, and a policy for each seed."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from os import environ
from typing import Any

from rlexp.app.export_card import Card, card, result
from rlexp.app.export_request import ExportRequest, evidence_of, exported_runs, run_remarks
from rlexp.app.exporting.output import Content, Export, Output
from rlexp.app.exporting.script import SCRIPT, Scripted, needed_lines, playing, scripted
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.identity import short_name
from rlexp.reports.analysis.estimates import is_capped, per_task
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.evidence.runs import Evidence, Member
from rlexp.reports.formats.as_json import plain
from rlexp.reports.sentences import listed
from rlexp.reports.wording import score_in_words, state
from rlexp.store.files import read_file
from rlexp.store.layout import RunPaths
from rlexp.store.secrets import mask_all, mask_known, secret_values

METRIC = "iqm"
LONGEST = 100


def make_huggingface(request: ExportRequest, output: Output, workspace: Workspace) -> Export:
    """The folder of one label on one task.

    Raises:
        RlexpError: The targets are several labels or tasks, or a policy cannot be exported.
    """
    evidence = evidence_of(request, workspace)
    _check_one(evidence)
    inquiry = _inquiry(evidence, request, workspace)
    command = ["rlexp", "export", "huggingface", *request.targets, "--output", str(output.path)]
    scored = [m for m in evidence.members if m.score is not None]
    model = model_file(scored[0])
    runs = {m.record.spec.seed: _scripted(m, model, command, workspace) for m in scored}
    report = _report(evidence, workspace)
    of = _card(inquiry, runs, model, report=report is not None)
    files: dict[str, Content] = {
        "README.md": mask_known(card(of).decode(), secret_values(environ)).encode()
    }
    files["config.json"] = _as_json(_config(scored[0]))
    files["results.json"] = _as_json(_results(of))
    files |= {"report.html": report} if report is not None else {}
    for seed, run in runs.items():
        files |= {f"{of.folders[seed]}/{name}": content for name, content in run.files.items()}
    first = next(iter(of.folders.values()))
    remarks = [result(of), *run_remarks(evidence), *needed_lines(of.foreign)]
    outcome = replace(
        exported_runs(evidence, request, output, *remarks),
        result=result(of),
        imports=of.foreign,
        next=(playing(output.path / first / SCRIPT, of.foreign, workspace),),
    )
    return Export(contents=files, folder=True, outcome=outcome)


def _check_one(evidence: Evidence) -> None:
    if len(evidence.labels) > 1:
        raise ConfigError(
            f"a model card is of one label, and there are {listed(evidence.labels)}: name one of "
            f"them (EXPERIMENT/{evidence.labels[0].rpartition('/')[2]})",
        )
    if len(evidence.tasks) > 1:
        raise ConfigError(
            f"a model card is of one task, and there are {listed(evidence.tasks)}: name one of "
            f"them (--task {evidence.tasks[0]})",
        )


def _inquiry(evidence: Evidence, request: ExportRequest, workspace: Workspace) -> Inquiry:
    """The runs, and the one metric that sums their scores up."""
    name = request.metric or METRIC
    if not re.fullmatch(r"\w+", name):
        raise ConfigError(f"--metric={name!r} is no name of a metric: iqm, mean or median")
    parts = read_report((f"metric=[{name}]",), workspace.folder, workspace.allowed)
    if is_capped(parts.metrics[name]):
        raise ConfigError(f"--metric={name} is of normalised scores: use iqm, mean or median")
    return Inquiry(evidence=evidence, settings=parts.settings, metrics=parts.metrics)


def model_file(member: Member) -> str:
    """The file name that the Hub's users expect (`ppo-CartPole-v1.zip`)."""
    spec = member.record.spec
    task = re.sub(r"[^A-Za-z0-9._-]+", "-", str(spec.environment.get("id")).rpartition(":")[2])
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", short_name(spec.algorithm)).replace("_", "-")
    return f"{name}-{task[:LONGEST].strip('.-') or 'task'}.zip"


def _scripted(
    member: Member, model: str, command: Sequence[str], workspace: Workspace
) -> Scripted:
    paths: RunPaths = workspace.experiment(member.experiment).run(member.record.spec.name)
    return scripted(paths, workspace, command, model)


def _card(inquiry: Inquiry, runs: Mapping[int, Scripted], model: str, *, report: bool) -> Card:
    estimates = per_task(inquiry)[0]
    name = next(iter(inquiry.metrics))
    if name not in estimates.intervals:
        raise RecordError(f"{name} cannot be computed: {estimates.reasons.get(name)}")
    return Card(
        inquiry=inquiry,
        estimates=estimates,
        algorithm=next(iter(runs.values())).algorithm,
        model=model,
        folders={seed: f"seed-{seed}" for seed in runs},
        foreign=tuple(sorted({name for run in runs.values() for name in run.foreign})),
        report=report,
    )


def _report(evidence: Evidence, workspace: Workspace) -> bytes | None:
    """The page that `rlexp report` wrote, if it did."""
    with suppress(OSError):
        return read_file(
            workspace.folder / "reports" / evidence.experiments[0].name / "report.html"
        )
    return None


def _config(member: Member) -> dict[str, Any]:
    return {"label": member.label, **member.configuration.plain()}


def _results(of: Card) -> dict[str, Any]:
    evidence = of.inquiry.evidence
    return {
        "experiment": evidence.experiments[0].name,
        "label": of.estimates.label,
        "task": of.task,
        "phase": str(evidence.phase),
        "metric": of.metric,
        "interval": plain(of.estimates.intervals[of.metric]),
        "n": of.estimates.n,
        "planned": of.estimates.planned,
        "failures": evidence.experiments[0].failures,
        "score": score_in_words(of.members[0].record.spec.budget),
        "runs": [_run(m, of) for m in of.members],
    }


def _run(member: Member, of: Card) -> dict[str, Any]:
    record = member.record
    final = record.final if member.score is not None else None
    return {
        "seed": record.spec.seed,
        "state": state(member),
        "score": member.score,
        "steps": record.step,
        "folder": of.folders.get(record.spec.seed),
        "final": {k: v for k, v in asdict(final).items() if k in {"returns", "lengths"}}
        if final
        else None,
    }


def _as_json(value: Mapping[str, Any]) -> bytes:
    masked = mask_all(value, secret_values(environ))
    return (json.dumps(masked, indent=1, allow_nan=False) + "\n").encode()
