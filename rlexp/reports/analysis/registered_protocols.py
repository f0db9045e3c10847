"""Whether the experiments of a report keep their registered protocols, or what deviates."""

from collections.abc import Iterator
from dataclasses import replace

from rlexp.records.deviations import changed_value, setting_text
from rlexp.records.integrity import SHORT
from rlexp.records.registration import DECIDING, RegisteredExperiment, definition_of_metric
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import Block, Callout, ProtocolCheck, Table, TableColumn, Tone
from rlexp.text import format_count


def protocol_checks(report: ReportContext) -> tuple[ProtocolCheck, ...]:
    """The registered protocols of the experiments of a report."""
    return tuple(_check(_judged(r, report)) for r in report.evidence.protocols.experiments)


def protocols_text(report: ReportContext) -> str:
    """Whether each protocol is kept, or what deviates, without a full stop; empty without one."""
    registered = report.evidence.protocols
    judged = [_judged(r, report) for r in registered.experiments]
    texts = [f"{experiment.title}: {experiment.state}" for experiment in judged]
    return "; ".join([*texts, *registered.problems])


def protocol_blocks(report: ReportContext) -> Iterator[Block]:
    """A notice on each protocol, the table of what was sealed, and what is wrong with the register."""
    registered = report.evidence.protocols
    for experiment in registered.experiments:
        judged = _judged(experiment, report)
        tone = Tone.WARNING if judged.deviations else Tone.GOOD
        yield Callout(tone=tone, text=f"Protocol {judged.title}: {judged.state}.")
        yield _table(experiment)
    for problem in registered.problems:
        yield Callout(tone=Tone.WARNING, text=f"{problem[0].upper()}{problem[1:]}.")


def _judged(registered: RegisteredExperiment, report: ReportContext) -> RegisteredExperiment:
    """The experiment with the deviations of its report behind those of its runs."""
    deviations = (*registered.deviations, *_of_report(registered, report))
    return replace(registered, deviations=deviations)


def _check(registered: RegisteredExperiment) -> ProtocolCheck:
    registration = registered.registration
    return ProtocolCheck(
        protocol=registration.protocol,
        experiment=registered.experiment,
        hash=registration.study.hash,
        root=registration.root,
        nonce=registration.nonce,
        nonce_source=registration.nonce_source,
        registered=registration.registered,
        question=registration.study.question,
        kept=not registered.deviations,
        deviations=registered.deviations,
        runs=registered.runs,
        ended=registered.ended,
        registration=registered.number,
        registrations=registered.on_tasks,
        same_study=registered.same_study,
    )


def _of_report(registered: RegisteredExperiment, report: ReportContext) -> Iterator[str]:
    """The deviations of what is compared, and of the settings by which it is judged."""
    yield from _of_labels(registered, report)
    sealed = registered.registration.study.settings
    metric = next(iter(report.metrics))
    if metric != registered.registration.study.metric:
        yield changed_value("metric", registered.registration.study.metric, metric)
    yield from _of_metrics(registered, report)
    for key in DECIDING:
        used = getattr(report.settings, key)
        if key in sealed and used != sealed[key]:
            yield changed_value(key, sealed[key], used)


def _of_metrics(registered: RegisteredExperiment, report: ReportContext) -> Iterator[str]:
    """The sealed metrics with another class, or with other values."""
    for name, sealed in registered.registration.study.metric_definitions.items():
        if name not in report.metrics:
            continue
        used = definition_of_metric(report.metrics[name])
        for key in dict.fromkeys((*sealed, *used)):
            if sealed.get(key) != used.get(key):
                yield changed_value(f"metric.{name}.{key}", sealed.get(key), used.get(key))


def _of_labels(registered: RegisteredExperiment, report: ReportContext) -> Iterator[str]:
    members = report.evidence.members
    here = {m.configuration.label for m in members if m.experiment == registered.experiment}
    # Labels that the experiment itself lacks are named elsewhere.
    (experiment,) = (e for e in report.evidence.experiments if e.name == registered.experiment)
    planned = {c.label for c in experiment.configurations} & set(
        registered.registration.study.labels
    )
    if here and planned - here:
        yield f"compares {len(planned & here)} of {format_count(len(planned), 'label')}"
    if any(m.experiment != registered.experiment for m in members):
        yield "compared with runs of other experiments"


def _table(registered: RegisteredExperiment) -> Table:
    registration, study = registered.registration, registered.registration.study
    source = f" ({registration.nonce_source})" if registration.nonce_source else ""
    rows = (
        ("question", study.question),
        ("registered", registration.registered),
        ("registrations", registered.counted or "the only one on its tasks"),
        ("hash of the study", study.hash),
        ("nonce", f"{registration.nonce}{source}"),
        ("root of the test seeds", str(registration.root)),
        ("labels", ", ".join(study.labels)),
        ("test seeds of each label", str(len(study.test_seeds))),
        ("metric", study.metric),
        ("test", str(study.settings.get("test"))),
        *((key, setting_text(study.settings.get(key))) for key in ("alpha", "margin")),
        ("failed runs", study.failures),
        ("register of looks", (registration.looks or "empty")[:SHORT]),
    )
    return Table(
        name=f"protocol-{registered.experiment}",
        title=f"Sealed protocol {registration.protocol}",
        columns=(TableColumn(title="what was sealed"), TableColumn(title="value")),
        rows=rows,
        note="The root of the test seeds is derived from the hash and the nonce: nobody could know these "
        "seeds before both existed.",
    )
