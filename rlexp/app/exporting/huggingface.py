"""Exports a folder for the Hugging Face Hub: a model card, and a policy for each seed.

`make_huggingface` is the entry; `ModelCard` holds the content of the card, and `render_card`
renders it.
"""

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
    ExportTarget,
    evidence_of,
    exported_runs,
    run_remarks,
)
from rlexp.app.exporting.script import (
    SCRIPT,
    ExportedPolicy,
    evaluation_command,
    export_policy,
    import_remarks,
)
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.config.yaml_text import front_matter
from rlexp.errors import ConfigError, RecordError
from rlexp.metrics.estimate import mean_and_deviation
from rlexp.metrics.estimate_text import sentence
from rlexp.protocol.identity import short_name
from rlexp.protocol.units import unit_text
from rlexp.reports.analysis.estimates import LabelEstimates, is_capped, per_task
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    ReportDocument,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    VerbatimText,
)
from rlexp.reports.drawing.units import naming_unit
from rlexp.reports.evidence.runs import (
    Evidence,
    PlannedRun,
    run_states_text,
    score_definition,
    state,
)
from rlexp.reports.formats.as_json import as_json_value
from rlexp.reports.formats.markdown import render
from rlexp.reports.sections.missing import MissingRunsSection
from rlexp.reports.sections.protocol import ProtocolSection
from rlexp.store.files import read_file
from rlexp.store.layout import RunPaths
from rlexp.store.secrets import mask_all, mask_known, secret_values
from rlexp.text import decimals_for_span, format_count, format_ranges, join_names, one_line

LIBRARY = "stable-baselines3"
TAGS = ("deep-reinforcement-learning", "reinforcement-learning", LIBRARY)
HUB_METRIC = "mean_reward"
"""The Hub's name of the mean return of a policy."""
LEAST_DIGITS = 2
"""Digits after the decimal point in the number for the Hub, at least."""
LONGEST_NAME = 200
"""Characters of a name in the head of a card, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """The content of a model card: one label on one task.

    Attributes:
        inquiry: The runs, with the settings and the single metric of the card.
        estimates: The estimates of the metric.
        algorithm: The algorithm in the title (`PPO`, `compiled_ppo`).
        loader: Name of the class that loads the model (`PPO`).
        model: Name of the file with the parameters of a run.
        folders: Folders of the runs with a policy, by seed.
        foreign: Packages that the scripts import and the folder does not contain.
        report: Whether the folder contains a report.
    """

    inquiry: ReportContext
    estimates: LabelEstimates
    algorithm: str
    loader: str
    model: str
    folders: Mapping[int, str]
    foreign: tuple[str, ...]
    report: bool

    @property
    def members(self) -> Sequence[PlannedRun]:
        """Every planned run."""
        return self.inquiry.evidence.members

    @property
    def task(self) -> str:
        """The task of the card."""
        return self.members[0].task

    @property
    def metric(self) -> str:
        """The name of the card's metric."""
        return next(iter(self.inquiry.metrics))


def render_card(model_card: ModelCard) -> bytes:
    """The card as bytes: a head in YAML, then Markdown."""
    page = ReportDocument(
        title=f"{model_card.algorithm} on {model_card.task}",
        subtitle=f"{describe_result(model_card)}.",
        labels=(model_card.estimates.label,),
        parts=tuple(_parts(model_card)),
        version=version("rlexp"),
    )
    return front_matter(_head(model_card)).encode() + b"\n" + render(page)["report.md"]


def describe_result(model_card: ModelCard) -> str:
    """The metric, its interval and the interval's method, and n, in one line."""
    interval = model_card.estimates.intervals[model_card.metric]
    parts = [sentence(model_card.inquiry.metrics[model_card.metric].title, interval)]
    absent = [m for m in model_card.members if m.score is None]
    seeds = format_ranges(m.record.spec.seed for m in model_card.members)
    parts.append(
        f"{model_card.estimates.n} of {format_count(model_card.estimates.planned, 'run')} (seeds {seeds})"
    )
    parts += [f"{run_states_text(absent)} without a score"] if absent else []
    # The estimate has more values than there are scores where the worst stands for missing ones.
    worst = model_card.estimates.n - len(model_card.members) + len(absent)
    parts += [f"{worst} of them counted as the task's worst"] if worst else []
    return ", ".join(parts)


def _digits(model_card: ModelCard) -> int:
    scores = model_card.estimates.scores
    return decimals_for_span(max(scores) - min(scores)) if len(scores) > 1 else 2


def _head(model_card: ModelCard) -> dict[str, Any]:
    task = one_line(model_card.task)[:LONGEST_NAME]
    entry = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": task, "type": task},
        "metrics": [_hub_metric(model_card)],
    }
    return {
        "library_name": LIBRARY,
        "tags": [task, *TAGS],
        "model-index": [{"name": model_card.algorithm, "results": [entry]}],
    }


def _hub_metric(model_card: ModelCard) -> dict[str, Any]:
    """The metric in the head of the card, in the form that the Hub sorts by."""
    spec = model_card.members[0].record.spec
    # Other rules of the score do not measure the final policy, which `mean_reward` stands for.
    is_reward = spec.budget["score"] == "final"
    return {
        "type": HUB_METRIC if is_reward else "score",
        "name": HUB_METRIC if is_reward else score_definition(spec),
        "value": hub_value(model_card),
        "verified": False,
    }


def hub_value(model_card: ModelCard) -> str | float:
    """The mean of the scores and their standard deviation, as the Hub writes them.

    A single score has no standard deviation, so it is a number alone.
    """
    digits = max(_digits(model_card), LEAST_DIGITS)
    mean, deviation = mean_and_deviation(model_card.estimates.scores)
    if deviation is None:
        return round(mean, digits)
    return f"{mean:.{digits}f} +/- {deviation:.{digits}f}"


def _parts(model_card: ModelCard) -> Iterator[SectionContent]:
    yield SectionContent(name="result", title="Result", blocks=tuple(_result(model_card)))
    yield SectionContent(name="use", title="Use", blocks=tuple(_use(model_card)))
    for section in (MissingRunsSection(), ProtocolSection()):
        part = section.part(model_card.inquiry)
        if part is not None:
            yield naming_unit(part, model_card.inquiry.evidence.unit)


def _result(model_card: ModelCard) -> Iterator[Block]:
    metric, interval = (
        model_card.inquiry.metrics[model_card.metric],
        model_card.estimates.intervals[model_card.metric],
    )
    seeds = [m.record.spec.seed for m in model_card.members]
    yield Text(
        text=f"{format_count(model_card.estimates.planned, 'run')} of one configuration (label "
        f"{model_card.estimates.label}), test seeds {format_ranges(seeds)}, each trained independently from its first "
        "step. No run and no checkpoint was chosen by its score."
    )
    yield Text(
        text=f"{describe_result(model_card)}. The number in the head of this card, "
        f"{hub_value(model_card)}, is the mean of the scores"
        f"{' and their standard deviation' if model_card.estimates.n > 1 else ''}, in the form "
        "of the Hub. It is no interval."
    )
    digits = _digits(model_card)
    result_table = Table(
        name="result",
        title=f"{metric.title} of the scores",
        columns=(
            TableColumn(title="task"),
            TableColumn(title=metric.title, digits=digits),
            TableColumn(title="n"),
        ),
        rows=((model_card.task, interval, model_card.estimates.n),),
    )
    yield with_every_run(result_table)
    steps = unit_text(model_card.inquiry.evidence.unit)
    columns = ("seed", "score", "state", steps, "folder")
    yield Table(
        name="runs",
        title="Every run",
        columns=tuple(TableColumn(title=c, digits=digits if c == "score" else 0) for c in columns),
        rows=tuple(_row(m, model_card) for m in model_card.members),
    )


def _row(member: PlannedRun, model_card: ModelCard) -> tuple[Value, ...]:
    seed = member.record.spec.seed
    return (seed, member.score, state(member), member.record.step, model_card.folders.get(seed))


def _use(model_card: ModelCard) -> Iterator[Block]:
    folder = next(iter(model_card.folders.values()))
    yield Text(
        text="The folder of each run holds its parameters as Stable-Baselines3 saves them, the "
        "versions of the packages, and a script that rebuilds the policy and plays its final "
        "evaluation again, without loading a pickle:"
    )
    lines = f"pip install -r {folder}/requirements.txt\npython {folder}/evaluate.py"
    yield VerbatimText(name="commands", title="Play the final evaluation", text=lines)
    yield Callout(
        tone=Tone.WARNING,
        text=f"{model_card.loader}.load({model_card.model}) would unpickle the content of the file, as every model "
        "of Stable-Baselines3 does: call it only on files from a source that you trust.",
    )
    if model_card.foreign:
        import_warning = (
            f"The scripts import {join_names(model_card.foreign)}, which must be installed."
        )
        yield Callout(tone=Tone.WARNING, text=import_warning)
    if model_card.report:
        yield Text(
            text="report.html is the reliability report of the experiment, as last written."
        )


METRIC = "iqm"
"""The default metric of a card."""
LONGEST_TASK = 100


def make_huggingface(request: ExportRequest, output: ExportTarget, workspace: Workspace) -> Export:
    """Export one label on one task as a folder for the Hub.

    Raises:
        RlexpError: The targets have several labels or tasks, or a policy cannot be exported.
    """
    evidence = evidence_of(request, workspace)
    _check_one(evidence)
    inquiry = _inquiry(evidence, request, workspace)
    command = ["rlexp", "export", "huggingface", *request.targets, "--output", str(output.path)]
    scored = [m for m in evidence.members if m.score is not None]
    model = model_file(scored[0])
    runs = {m.record.spec.seed: _scripted(m, model, command, workspace) for m in scored}
    report = _report(evidence, workspace)
    model_card = _card(inquiry, runs, model, report=report is not None)
    # The card quotes settings and reasons, which may contain secrets.
    files: dict[str, Content] = {
        "README.md": mask_known(render_card(model_card).decode(), secret_values(environ)).encode()
    }
    files["config.json"] = _as_json(_config(scored[0]))
    files["results.json"] = _as_json(_results(model_card))
    files |= {"report.html": report} if report is not None else {}
    for seed, run in runs.items():
        files |= {
            f"{model_card.folders[seed]}/{name}": content for name, content in run.files.items()
        }
    first = next(iter(model_card.folders.values()))
    remarks = [
        describe_result(model_card),
        *run_remarks(evidence),
        *import_remarks(model_card.foreign),
    ]
    outcome = replace(
        exported_runs(evidence, request, output, *remarks),
        result=describe_result(model_card),
        imports=model_card.foreign,
        next=(evaluation_command(output.path / first / SCRIPT, model_card.foreign, workspace),),
    )
    return Export(contents=files, folder=True, outcome=outcome)


def _check_one(evidence: Evidence) -> None:
    if len(evidence.labels) > 1:
        raise ConfigError(
            f"a model card describes one label, and the targets have {join_names(evidence.labels)}: name one of "
            f"them (EXPERIMENT/{evidence.labels[0].rpartition('/')[2]})",
        )
    if len(evidence.tasks) > 1:
        raise ConfigError(
            f"a model card describes one task, and the targets have {join_names(evidence.tasks)}: name one of "
            f"them (--task {evidence.tasks[0]})",
        )


def _inquiry(evidence: Evidence, request: ExportRequest, workspace: Workspace) -> ReportContext:
    """The runs, with the settings of the single metric that summarises them."""
    name = request.metric or METRIC
    if not re.fullmatch(r"\w+", name):
        raise ConfigError(f"--metric={name!r} is not a metric: use iqm, mean or median")
    parts = read_report((f"metric=[{name}]",), workspace.folder, workspace.allowed)
    if is_capped(parts.metrics[name]):
        raise ConfigError(
            f"--metric={name} needs normalised scores, which a card does not have: use iqm, mean or median"
        )
    return ReportContext(
        evidence=in_units_of_scores(evidence, parts.settings),
        settings=parts.settings,
        metrics=parts.metrics,
    )


def model_file(member: PlannedRun) -> str:
    """The file name that users of the Hub expect (`ppo-CartPole-v1.zip`)."""
    spec = member.record.spec
    task = re.sub(r"[^A-Za-z0-9._-]+", "-", str(spec.environment.get("id")).rpartition(":")[2])
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", short_name(spec.algorithm)).replace("_", "-")
    return f"{name}-{task[:LONGEST_TASK].strip('.-') or 'task'}.zip"


def _scripted(
    member: PlannedRun, model: str, command: Sequence[str], workspace: Workspace
) -> ExportedPolicy:
    paths: RunPaths = workspace.experiment(member.experiment).run(member.record.spec.name)
    return export_policy(paths, workspace, command, model)


def _card(
    inquiry: ReportContext, runs: Mapping[int, ExportedPolicy], model: str, *, report: bool
) -> ModelCard:
    estimates = per_task(inquiry)[0]
    name = next(iter(inquiry.metrics))
    if name not in estimates.intervals:
        raise RecordError(f"{name} cannot be computed: {estimates.reasons.get(name)}")
    policy = next(iter(runs.values()))
    return ModelCard(
        inquiry=inquiry,
        estimates=estimates,
        algorithm=policy.compiled or policy.algorithm,
        loader=policy.algorithm,
        model=model,
        folders={seed: f"seed-{seed}" for seed in runs},
        foreign=tuple(sorted({name for run in runs.values() for name in run.foreign})),
        report=report,
    )


def _report(evidence: Evidence, workspace: Workspace) -> bytes | None:
    """The page written by `rlexp report`, or None."""
    with suppress(OSError):
        return read_file(
            workspace.folder / "reports" / evidence.experiments[0].name / "report.html"
        )
    return None


def _config(member: PlannedRun) -> dict[str, Any]:
    return {"label": member.label, **member.configuration.plain()}


def _results(model_card: ModelCard) -> dict[str, Any]:
    evidence = model_card.inquiry.evidence
    return {
        "experiment": evidence.experiments[0].name,
        "label": model_card.estimates.label,
        "task": model_card.task,
        "phase": str(evidence.phase),
        "metric": model_card.metric,
        "interval": as_json_value(model_card.estimates.intervals[model_card.metric]),
        "n": model_card.estimates.n,
        "planned": model_card.estimates.planned,
        "failures": evidence.experiments[0].failures,
        "score": score_definition(model_card.members[0].record.spec),
        "runs": [_run(m, model_card) for m in model_card.members],
    }


def _run(member: PlannedRun, model_card: ModelCard) -> dict[str, Any]:
    record = member.record
    final = record.final if member.score is not None else None
    return {
        "seed": record.spec.seed,
        "state": state(member),
        "score": member.score,
        "steps": record.step,
        "folder": model_card.folders.get(record.spec.seed),
        "final": {k: v for k, v in asdict(final).items() if k in {"returns", "lengths"}}
        if final
        else None,
    }


def _as_json(value: Mapping[str, Any]) -> bytes:
    masked = mask_all(value, secret_values(environ))
    return (json.dumps(masked, indent=1, allow_nan=False) + "\n").encode()
