"""The section of costs: environment steps, core-hours, attempts and wall-clock time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from rlexp.protocol.seeds import Phase
from rlexp.records.system_metrics import MEGABYTE, SystemUsage
from rlexp.reports.analysis.cost import HOUR, TotalCost, total_cost
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import name_suffix, sweep_title
from rlexp.reports.drawing.blocks import Block, SectionContent, Table, TableColumn, Text, Value
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.reports.evidence.sweeps import PhaseCost, SweepEvidence
from rlexp.text import format_count

COLUMNS = (
    TableColumn(title="task"),
    TableColumn(title="label", label=True),
    TableColumn(title="runs", digits=0),
    TableColumn(title="attempts", digits=0),
    TableColumn(title="environment steps", digits=0),
    TableColumn(title="core-hours", digits=3),
    TableColumn(title="run hours", digits=3),
    TableColumn(title="longest run, seconds", digits=1),
)
SYSTEM = (
    TableColumn(title="task"),
    TableColumn(title="label", label=True),
    TableColumn(title="measured runs", digits=0),
    TableColumn(title="measurements", digits=0),
    TableColumn(title="mean processor, % of a core", digits=0),
    TableColumn(title="peak memory of a run, MB", digits=0),
    TableColumn(title="mean GPU, %", digits=0),
    TableColumn(title="peak GPU memory, MB", digits=0),
)
PHASES = (
    TableColumn(title="phase"),
    TableColumn(title="runs", digits=0),
    TableColumn(title="environment steps", digits=0),
    TableColumn(title="share of the steps", digits=3),
    TableColumn(title="core-hours", digits=3),
    TableColumn(title="run hours", digits=3),
)


@dataclass(frozen=True, slots=True)
class CostSection:
    """Table with a row for each label and task, and for each sweep a table of its phases."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run was started."""
        evidence = report.evidence
        # A search has costs before the first test run exists.
        phases = [_phases(sweep, evidence) for sweep in evidence.sweeps if _begun(sweep)]
        if not any(m.record.attempts for m in evidence.members):
            return (
                SectionContent(name="cost", title="Cost", blocks=tuple(phases)) if phases else None
            )
        cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
        every = total_cost(evidence.members)
        rows = [(cell.task, cell.label, *_cost(total_cost(cell.members))) for cell in cells]
        rows.append(("all", None, *_cost(every)))
        table = Table(
            name="cost",
            title="Cost",
            columns=COLUMNS,
            rows=tuple(rows),
            note="Totals over all attempts of every started run. The time of attempts that were "
            "killed before they recorded it is missing. Core-hours: seconds × threads of the run. "
            "Times include evaluations, environment steps do not. Energy was not measured.",
        )
        blocks: tuple[Block, ...] = (Text(text=_text(every)), table, *_system(cells), *phases)
        return SectionContent(name="cost", title="Cost", blocks=blocks)


def _cost(cost: TotalCost) -> tuple[Value, ...]:
    return (
        cost.runs,
        cost.attempts,
        cost.steps,
        cost.core_hours,
        cost.hours,
        cost.longest,
    )


def _system(cells: Sequence[LabelTaskRuns]) -> Iterator[Table]:
    """A table with what measured runs used of their machines; nothing where none was measured."""
    rows = [(c, [m.system for m in c.members if m.system is not None]) for c in cells]
    if any(measured for _, measured in rows):
        lines = [(c.task, c.label, *_usage(measured)) for c, measured in rows if measured]
        # Columns of GPUs are left out where no run could use one.
        width = len(SYSTEM) if any(line[-1] is not None for line in lines) else -2
        yield Table(
            name="system",
            title="Processor and memory",
            columns=SYSTEM[:width],
            rows=tuple(line[:width] for line in lines),
            note="Over all measurements of runs with budget.system_metrics_seconds, of the run and "
            "of every process that it started. 100 % of a core is one busy core. Peaks between "
            "two measurements are not seen. Memory that processes share counts in each of them. "
            "A GPU is measured as a whole, with all programs that use it.",
        )


def _usage(measured: Sequence[SystemUsage]) -> tuple[Value, ...]:
    """The means over runs, and the largest peaks."""
    gpus = [u.gpu_utilization_percent for u in measured if u.gpu_utilization_percent is not None]
    gpu_peaks = [u.peak_gpu_memory_bytes for u in measured if u.peak_gpu_memory_bytes is not None]
    return (
        len(measured),
        sum(u.measurements for u in measured),
        fsum(u.processor_percent for u in measured) / len(measured),
        max(u.peak_memory_bytes for u in measured) / MEGABYTE,
        fsum(gpus) / len(gpus) if gpus else None,
        max(gpu_peaks) / MEGABYTE if gpu_peaks else None,
    )


def _text(cost: TotalCost) -> str:
    spent = f"{format_count(cost.runs, 'run')} used {cost.steps:,} environment steps"
    hours = f" and {cost.core_hours:,.3g} core-hours" if cost.core_hours else ""
    again = cost.attempts - cost.runs
    more = f", including {format_count(again, 'further attempt')}" if again else ""
    lacking = (
        f"; the time of {format_count(cost.untimed, 'run')} is not completely known"
        if cost.untimed
        else ""
    )
    return f"{spent}{hours}{more}{lacking}."


def _begun(sweep: SweepEvidence) -> bool:
    return any(cost.runs for cost in sweep.costs.values())


def _phases(sweep: SweepEvidence, evidence: Evidence) -> Table:
    """Cost of each phase of a sweep."""
    threads = _threads(sweep, evidence)
    total = sum(cost.steps for cost in sweep.costs.values())
    costs = {str(phase): sweep.costs[str(phase)] for phase in Phase if str(phase) in sweep.costs}
    every = PhaseCost(
        runs=sum(cost.runs for cost in costs.values()),
        steps=total,
        seconds=fsum(cost.seconds for cost in costs.values()),
    )
    return Table(
        name=f"phases{name_suffix(sweep, evidence)}",
        title=sweep_title("Cost of search and test", sweep, evidence),
        columns=PHASES,
        rows=tuple(
            (
                name,
                cost.runs,
                cost.steps,
                cost.steps / total if total else None,
                None if threads is None else cost.seconds * threads / HOUR,
                cost.seconds / HOUR,
            )
            for name, cost in (*costs.items(), ("all", every))
        ),
        note=f"All started runs of {sweep.experiment}, including pruned and failed ones. Tuning is "
        "the search; selection scores its finalists again; only test scores are results.",
    )


def _threads(sweep: SweepEvidence, evidence: Evidence) -> int | None:
    """Number of threads of a run; `None` where the configurations of the sweep differ in it."""
    threads = {
        c.compute.threads
        for e in evidence.experiments
        if e.name == sweep.experiment
        for c in e.configurations
    }
    # Costs of a phase are sums over runs, which cannot be multiplied by different threads.
    return threads.pop() if len(threads) == 1 else None
