"""The section of the front of a sweep of several objectives: policies, pictures and hypervolume."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite

from rlexp.reports.analysis.front_values import (
    PHASES,
    PolicyValues,
    expected_utilities,
    front_volumes,
    policy_values,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    name_suffix,
    sweep_title,
    trial_kind,
)
from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Callout,
    FigureLine,
    LineFigure,
    PointSeries,
    ScatterFigure,
    SectionContent,
    Table,
    TableColumn,
    Tone,
    Value,
)
from rlexp.reports.evidence.fronts import FrontEvidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.text import format_count, format_percentage, join_names

ONE_SEED = "one seed"


@dataclass(frozen=True, slots=True)
class FrontSection:
    """The policies of each front with their seeds, its hypervolume over trials, and utilities."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no sweep has several objectives."""
        blocks = tuple(
            block
            for sweep in report.evidence.sweeps
            if sweep.front is not None
            for block in _blocks(sweep, sweep.front, report)
        )
        if not blocks:
            return None
        return SectionContent(name="front", title="Front of several objectives", blocks=blocks)


def _blocks(sweep: SweepEvidence, front: FrontEvidence, report: ReportContext) -> Iterator[Block]:
    values = list(policy_values(front, PHASES, report))
    yield _answer(sweep, front)
    yield from _pictures(sweep, front, values, report)
    yield _table(sweep, front, values, report)
    yield _volume_figure(sweep, front, report)
    yield _volume_table(sweep, front, report)
    yield from _utility_table(sweep, front, report)


def _answer(sweep: SweepEvidence, front: FrontEvidence) -> Callout:
    """Which trials are on the front, and which one was chosen by which rule."""
    names = join_names(policy.name for policy in front.front) or "no trial"
    about = f"The front of {sweep.experiment} by {join_names(front.objectives)} is {names}."
    if sweep.selection is None:
        more = " It is that on tuning seeds, and may still change: it is no result."
        return Callout(tone=Tone.NOTE, text=about + more)
    return Callout(tone=Tone.NOTE, text=f"{about} Rule of the choice: {sweep.selection.rule}.")


def _pictures(
    sweep: SweepEvidence,
    front: FrontEvidence,
    values: Sequence[PolicyValues],
    report: ReportContext,
) -> Iterator[ScatterFigure]:
    """All trials, and the policies with their seeds, for each pair of objectives."""
    for first, second in combinations(range(len(front.objectives)), 2):
        yield _trials_picture(sweep, front, (first, second), report)
        for phase in ("selection", "test"):
            figure = _policies_picture(phase, sweep, front, values, (first, second), report)
            if figure is not None:
                yield figure


def _axes(front: FrontEvidence, pair: tuple[int, int]) -> tuple[Axis, Axis]:
    def title(position: int) -> str:
        name = front.objectives[position]
        better = "lower" if name in front.minimised else "higher"
        return f"{_words(name)} ({better} is better)"

    return Axis(title=title(pair[0])), Axis(title=title(pair[1]))


def _words(name: str) -> str:
    """An objective in few words, which fit beside an axis."""
    return name.replace("_", " ")


def _pair_suffix(front: FrontEvidence, pair: tuple[int, int]) -> str:
    return "" if len(front.objectives) == 2 else f"-{pair[0] + 1}-{pair[1] + 1}"


def _trials_picture(
    sweep: SweepEvidence, front: FrontEvidence, pair: tuple[int, int], report: ReportContext
) -> ScatterFigure:
    """Every trial by its values on the seeds on which every trial runs."""
    evidence, (a, b) = report.evidence, pair
    kinds: dict[str, list[int]] = {}
    for trial in sorted(sweep.trials, key=lambda t: t.number):
        if trial.number in front.searched:
            kinds.setdefault(trial_kind(trial, sweep), []).append(trial.number)
    x, y = _axes(front, pair)
    absent = len(sweep.trials) - len(front.searched)
    silent = (
        f" {format_count(absent, 'trial')} without these values: see all trials." if absent else ""
    )
    return ScatterFigure(
        name=f"front-trials{_pair_suffix(front, pair)}{name_suffix(sweep, evidence)}",
        title=sweep_title("Trials and their front", sweep, evidence),
        x=x,
        y=y,
        clouds=tuple(
            PointSeries(
                label=kind,
                x=tuple(front.searched[n][a] for n in numbers),
                y=tuple(front.searched[n][b] for n in numbers),
                names=tuple(f"trial {n}" for n in numbers),
            )
            for kind, numbers in kinds.items()
        ),
        lines=_staircase(list(front.searched.values()), front, pair),
        note=f"Means on {format_count(front.searched_seeds, 'tuning seed')}, on which every trial runs."
        f" The line joins the trials that no other one dominates.{silent}",
    )


def _staircase(
    points: Sequence[Sequence[float]], front: FrontEvidence, pair: tuple[int, int]
) -> tuple[FigureLine, ...]:
    """The line through the points that no other one dominates, in this pair of objectives."""
    from rlexp.stats.pareto import front_of

    a, b = pair
    signs = [-1 if front.objectives[k] in front.minimised else 1 for k in pair]
    kept = front_of([(signs[0] * p[a], signs[1] * p[b]) for p in points])
    rising = sorted((points[k][a], points[k][b]) for k in kept)
    if len(rising) < 2:
        return ()
    xs, ys = zip(*rising, strict=True)
    return (FigureLine(label="front", x=tuple(xs), y=tuple(ys)),)


def _policies_picture(
    phase: str,
    sweep: SweepEvidence,
    front: FrontEvidence,
    values: Sequence[PolicyValues],
    pair: tuple[int, int],
    report: ReportContext,
) -> ScatterFigure | None:
    """The policies in a phase: a small point for each seed, and the mean; None without runs."""
    evidence = report.evidence
    centres = [(v, v.whole) for v in values if v.phase == phase and v.whole is not None]
    if not centres:
        return None
    dots = [
        (v, seed, point)
        for v, _ in centres
        for seed, point in v.policy.values[phase].items()
        # The spread over seeds is no number of one run.
        if all(map(isfinite, point))
    ]
    x, y = _axes(front, pair)
    lost = [v for v in values if v.phase == phase and v.n < v.planned]
    silent = "".join(f" {v.policy.name} has {v.n} of {v.planned} runs." for v in lost)
    on_front = [point for v, point in centres if v.policy.on_front]
    return ScatterFigure(
        name=f"front-{phase}{_pair_suffix(front, pair)}{name_suffix(sweep, evidence)}",
        title=sweep_title(f"Policies on {phase} seeds", sweep, evidence),
        x=x,
        y=y,
        clouds=(*_single_runs(dots, pair), *_centre_clouds(centres, pair, _over_seeds(sweep))),
        lines=_staircase(on_front, front, pair),
        note=f"Each small point is one run. The line joins the front, by the {_over_seeds(sweep)}.{silent}",
    )


def _over_seeds(sweep: SweepEvidence) -> str:
    """The aggregate over seeds in words (`mean over seeds`)."""
    return f"{sweep.definition.plan.aggregate} over seeds"


def _single_runs(
    dots: Sequence[tuple[PolicyValues, int, Sequence[float]]], pair: tuple[int, int]
) -> Iterator[PointSeries]:
    """The single runs as points; nothing without any."""
    a, b = pair
    if dots:
        yield PointSeries(
            label=ONE_SEED,
            x=tuple(point[a] for _, _, point in dots),
            y=tuple(point[b] for _, _, point in dots),
            names=tuple(f"{v.policy.name}, {v.phase} seed {seed}" for v, seed, _ in dots),
        )


def _centre_clouds(
    centres: Sequence[tuple[PolicyValues, Sequence[float]]], pair: tuple[int, int], others: str
) -> Iterator[PointSeries]:
    """The aggregates: of the chosen policy, of the default configuration, and of the others."""
    a, b = pair
    kinds: dict[str, list[tuple[PolicyValues, Sequence[float]]]] = {}
    for each, point in centres:
        role = each.policy.name.partition(" ")[0]
        kinds.setdefault(role if role in ("tuned", "default") else others, []).append(
            (each, point)
        )
    for kind, members in kinds.items():
        yield PointSeries(
            label=kind,
            x=tuple(point[a] for _, point in members),
            y=tuple(point[b] for _, point in members),
            names=tuple(f"{v.policy.name}, {others}, n = {v.n}" for v, _ in members),
        )


def _table(
    sweep: SweepEvidence,
    front: FrontEvidence,
    values: Sequence[PolicyValues],
    report: ReportContext,
) -> Table:
    return Table(
        name=f"front-policies{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Policies by phase", sweep, report.evidence),
        columns=(
            TableColumn(title="configuration"),
            TableColumn(title="on the front"),
            TableColumn(title="phase"),
            TableColumn(title="runs", digits=0),
            TableColumn(title="planned", digits=0),
            *(TableColumn(title=_words(name)) for name in front.objectives),
        ),
        rows=tuple(_row(v) for v in values),
        note=f"Means over seeds with {format_percentage(report.settings.level)} intervals. Only test scores "
        "are results: the front was found on tuning seeds, and chosen from on selection seeds. A failed "
        "or missing run is planned, and not among the runs.",
    )


def _row(values: PolicyValues) -> tuple[Value, ...]:
    on_front = "yes" if values.policy.on_front else "no"
    whole = values.whole or (None,) * len(values.means)
    # The spread over seeds has no mean.
    cells = [
        value if mean is None else mean for mean, value in zip(values.means, whole, strict=True)
    ]
    return (values.policy.name, on_front, values.phase, values.n, values.planned, *cells)


def _volume_figure(
    sweep: SweepEvidence, front: FrontEvidence, report: ReportContext
) -> LineFigure:
    """The hypervolume of the trials up to each one."""
    numbers = sorted(front.volumes)
    return LineFigure(
        name=f"front-hypervolume{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Hypervolume over trials", sweep, report.evidence),
        x=Axis(title="trials of the search"),
        y=Axis(title="hypervolume", low=0.0),
        lines=(
            FigureLine(
                label="hypervolume",
                x=tuple(float(n + 1) for n in numbers),
                y=tuple(front.volumes[n] for n in numbers),
                steps=True,
            ),
        ),
        note=f"Of all trials up to each one, by their means on "
        f"{format_count(front.searched_seeds, 'tuning seed')}. {_reference_text(front)}",
    )


def _reference_text(front: FrontEvidence) -> str:
    """The reference point, where it comes from, and whether it can still change."""
    pairs = zip(front.objectives, front.reference, strict=True)
    point = ", ".join(f"{name} {value:.6g}" for name, value in pairs)
    fixed = (
        " It was written down with the choice."
        if front.frozen
        else " It can change until the choice is made."
    )
    return f"Reference point: {point}. It is {front.reference_rule}.{fixed}"


def _volume_table(sweep: SweepEvidence, front: FrontEvidence, report: ReportContext) -> Table:
    rows: list[tuple[Value, ...]] = [
        (v.phase, v.policies, v.of_means, v.by_seed, 0 if v.by_seed is None else v.by_seed.n)
        for v in front_volumes(front, report)
    ]
    return Table(
        name=f"front-volumes{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Hypervolume of the front", sweep, report.evidence),
        columns=(
            TableColumn(title="phase"),
            TableColumn(title="policies", digits=0),
            TableColumn(title="of all seeds"),
            TableColumn(title="of one seed"),
            TableColumn(title="seeds", digits=0),
        ),
        rows=tuple(rows),
        note=f"Of all seeds: of the {_over_seeds(sweep)} of each policy. Of one seed: of the policies that "
        "were trained with the same seed, mean over the seeds on which every policy of the front has a run. "
        f"{_reference_text(front)}",
    )


def _utility_table(
    sweep: SweepEvidence, front: FrontEvidence, report: ReportContext
) -> Iterator[Table]:
    utilities = list(expected_utilities(front, report))
    if not utilities:
        return
    kind = "declared" if front.weights else "evenly spaced"
    yield Table(
        name=f"front-utility{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Expected utility of the front", sweep, report.evidence),
        columns=(
            TableColumn(title="phase"),
            TableColumn(title="of the front"),
            TableColumn(title="of its best single policy"),
            TableColumn(title="seeds", digits=0),
        ),
        rows=tuple(
            (u.phase, u.of_set, u.of_best, 0 if u.of_set is None else u.of_set.n)
            for u in utilities
        ),
        note=f"Mean over {format_count(utilities[0].weights, f'{kind} vector')} of weights of the weighted "
        "sum that the best policy reaches (Zintgraf et al. 2015), and over seeds. Which policy is best for "
        "some weights was decided by the values of the choice, and not by the seeds on which it is "
        "measured.",
    )
