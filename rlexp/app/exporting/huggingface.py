"""A folder as the Hugging Face Hub shows it: a card, and a policy for each seed."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from os import environ
from typing import Any

from rlexp.app.exporting.output import (
    Content,
    Export,
    ExportRequest,
    Output,
    evidence_of,
    exported_runs,
    run_remarks,
)
from rlexp.app.exporting.script import SCRIPT, Scripted, needed_lines, playing, scripted
from rlexp.app.workspace import Workspace
from rlexp.config.front_matter import front_matter
from rlexp.config.report import read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.metrics.estimate_words import sentence
from rlexp.protocol.identity import short_name
from rlexp.reports.analysis.estimates import Estimates, is_capped, per_task
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import (
    Block,
    Column,
    Listing,
    Notice,
    Part,
    Study,
    Table,
    Text,
    Tone,
    Value,
)
from rlexp.reports.evidence.runs import Evidence, Member, score_in_words, state, states
from rlexp.reports.formats.as_json import plain
from rlexp.reports.formats.markdown import render
from rlexp.reports.sections.missing import MissingRunsSection
from rlexp.reports.sections.protocol import ProtocolSection
from rlexp.store.files import read_file
from rlexp.store.layout import RunPaths
from rlexp.store.secrets import mask_all, mask_known, secret_values
from rlexp.text import counted, digits_for, listed, numbers, one_line

LIBRARY = "stable-baselines3"
TAGS = ("deep-reinforcement-learning", "reinforcement-learning", LIBRARY)
MOST = 200
"""Letters of a name in the head of a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a card is about: one label on one task.

    Attributes:
        inquiry: Its runs, and how they are summed up by one metric.
        estimates: That metric of their scores.
        algorithm: Name of the algorithm's class (`PPO`).
        model: Name of the file with the parameters of each run.
        folders: Of the runs that have a policy, by seed.
        foreign: Packages that the scripts import and do not bring along.
        report: Whether a report lies in the folder.
    """

    inquiry: Inquiry
    estimates: Estimates
    algorithm: str
    model: str
    folders: Mapping[int, str]
    foreign: tuple[str, ...]
    report: bool

    @property
    def members(self) -> Sequence[Member]:
        """Every run that was asked for."""
        return self.inquiry.evidence.members

    @property
    def task(self) -> str:
        """The only task."""
        return self.members[0].task

    @property
    def metric(self) -> str:
        """The name of the only metric."""
        return next(iter(self.inquiry.metrics))


def card(of: Card) -> bytes:
    """The card: its head as YAML, then Markdown."""
    page = Study(
        title=f"{of.algorithm} on {of.task}",
        subtitle=f"{result(of)}.",
        labels=(of.estimates.label,),
        parts=tuple(_parts(of)),
        version=version("rlexp"),
    )
    return front_matter(_head(of)).encode() + b"\n" + render(page)["report.md"]


def result(of: Card) -> str:
    """The metric with its interval, how that was made, and n, in one line."""
    interval = of.estimates.intervals[of.metric]
    words = [sentence(of.inquiry.metrics[of.metric].title, interval)]
    absent = [m for m in of.members if m.score is None]
    seeds = numbers(m.record.spec.seed for m in of.members)
    words.append(f"{of.estimates.n} of {counted(of.estimates.planned, 'run')} (seeds {seeds})")
    words += [f"{states(absent)} without a score"] if absent else []
    worst = of.estimates.n - len(of.members) + len(absent)
    words += [f"{worst} of them counted as the task's worst"] if worst else []
    return ", ".join(words)


def _digits(of: Card) -> int:
    scores = of.estimates.scores
    return digits_for(max(scores) - min(scores)) if len(scores) > 1 else 2


def _head(of: Card) -> dict[str, Any]:
    task = one_line(of.task)[:MOST]
    metric = {"type": "mean_reward", "name": "mean_reward", "value": one_line(result(of))}
    entry = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": task, "type": task},
        "metrics": [metric],
    }
    return {
        "library_name": LIBRARY,
        "tags": [task, *TAGS],
        "model-index": [{"name": of.algorithm, "results": [entry]}],
    }


def _parts(of: Card) -> Iterator[Part]:
    yield Part(name="result", title="Result", blocks=tuple(_result(of)))
    yield Part(name="use", title="Use", blocks=tuple(_use(of)))
    for section in (MissingRunsSection(), ProtocolSection()):
        part = section.part(of.inquiry)
        if part is not None:
            yield part


def _result(of: Card) -> Iterator[Block]:
    metric, interval = of.inquiry.metrics[of.metric], of.estimates.intervals[of.metric]
    seeds = [m.record.spec.seed for m in of.members]
    yield Text(
        text=f"{counted(of.estimates.planned, 'run')} of one configuration (label "
        f"{of.estimates.label}), test seeds {numbers(seeds)}, each trained from the first step on "
        "its own. No run and no checkpoint was chosen by its score."
    )
    digits = _digits(of)
    result_table = Table(
        name="result",
        title=f"{metric.title} of the scores",
        columns=(
            Column(title="task"),
            Column(title=metric.title, digits=digits),
            Column(title="n"),
        ),
        rows=((of.task, interval, of.estimates.n),),
    )
    yield with_every_run(result_table)
    columns = ("seed", "score", "state", "environment steps", "folder")
    yield Table(
        name="runs",
        title="Every run",
        columns=tuple(Column(title=c, digits=digits if c == "score" else 0) for c in columns),
        rows=tuple(_row(m, of) for m in of.members),
    )


def _row(member: Member, of: Card) -> tuple[Value, ...]:
    seed = member.record.spec.seed
    return (seed, member.score, state(member), member.record.step, of.folders.get(seed))


def _use(of: Card) -> Iterator[Block]:
    folder = next(iter(of.folders.values()))
    yield Text(
        text="The folder of each run holds its parameters as Stable-Baselines3 saves them, the "
        "versions of the packages, and a script that rebuilds the policy and plays its final "
        "evaluation again, without loading a pickle:"
    )
    lines = f"pip install -r {folder}/requirements.txt\npython {folder}/evaluate.py"
    yield Listing(name="commands", title="Play the final evaluation", text=lines)
    yield Notice(
        tone=Tone.WARNING,
        text=f"{of.algorithm}.load({of.model}) would unpickle what the file holds, as every model "
        "of Stable-Baselines3 does: call it only on files whose origin you trust.",
    )
    if of.foreign:
        told = f"The scripts import {listed(of.foreign)}, which must be installed."
        yield Notice(tone=Tone.WARNING, text=told)
    if of.report:
        yield Text(
            text="report.html is the reliability report of the experiment, as last written."
        )


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
