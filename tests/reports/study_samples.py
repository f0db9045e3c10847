"""Sample studies: typical, large, unusual and hostile."""

from collections.abc import Callable
from dataclasses import replace

from study_blocks import (
    aggregates,
    checklist,
    forest,
    impossible,
    learning_curves,
    matrix,
    profile,
    verdicts,
    without_intervals,
)
from trial_samples import sweep_of, sweep_with_names

from rlexp.reports.drawing.blocks import (
    Axis,
    Figure,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    LineFigure,
    Matrix,
    Panel,
    ReportDocument,
    SectionContent,
    Table,
    TableColumn,
    VerbatimText,
)

LABELS = ("ppo", "a2c", "dqn")
TASKS = ("Acrobot-v1", "CartPole-v1", "LunarLander-v3")
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a label that goes on and on " * 6 + "and_has_no_place_to_break" * 4,
    "סוכן־חיזוק",
    "🤖 ppo 👩‍🔬",
    "{{ 7 * 7 }} {% raw %} & \\begin{x} $100%_#~^",
)


def study(
    labels: tuple[str, ...], tasks: tuple[str, ...] = TASKS, *, runs: int = 5
) -> ReportDocument:
    """A study of these labels with every kind of block."""
    curves: tuple[Figure, ...] = tuple(
        learning_curves(labels, task, k, runs) for k, task in enumerate(tasks)
    )
    patch = "diff --git a/train.py b/train.py\n-gamma = 0.99\n+gamma = 0.995  # <b>&amp;"
    listing = VerbatimText(name="patch", title="What differs from the commit", text=patch)
    return ReportDocument(
        title="ppo against its peers",
        subtitle=f"{len(labels)} labels · {len(tasks)} tasks · {runs} test seeds each",
        labels=labels,
        parts=(
            SectionContent(name="verdicts", title="Verdicts", blocks=verdicts(labels)),
            SectionContent(
                name="aggregate", title="Aggregates", blocks=(aggregates(labels), forest(labels))
            ),
            SectionContent(name="curves", title="Learning curves", blocks=curves),
            SectionContent(
                name="profile", title="Performance profiles", blocks=(profile(labels),)
            ),
            SectionContent(
                name="pairs", title="Probability of improvement", blocks=(matrix(labels),)
            ),
            SectionContent(name="provenance", title="Provenance", blocks=(listing,), folded=True),
            SectionContent(name="check", title="Checklist", blocks=(checklist(),), folded=True),
        ),
        version="0.1.0",
    )


def typical() -> ReportDocument:
    """Three labels on three tasks."""
    return study(LABELS)


def many_runs() -> ReportDocument:
    """A hundred runs of each label on a task."""
    return study(LABELS, runs=100)


def many_labels() -> ReportDocument:
    """More labels than there are colours."""
    return study(tuple(f"variant-{k}" for k in range(12)), runs=2)


def hostile() -> ReportDocument:
    """Names that try to be code, and names that try to break the layout."""
    base = study(HOSTILE, (HOSTILE[0], HOSTILE[3]))
    return replace(base, title=HOSTILE[0], subtitle=HOSTILE[1], failed_checks=HOSTILE[:2])


def one_run() -> ReportDocument:
    """One label with one run on one task: no interval is possible anywhere."""
    blocks = (
        without_intervals(aggregates(("ppo",))),
        without_intervals(forest(("ppo",))),
        LineFigure(
            name="curve",
            title="CartPole-v1",
            x=Axis(title="environment steps"),
            y=Axis(title="return"),
            lines=(FigureLine(label="ppo", x=(0.0, 500.0, 1000.0), y=(20.0, None, 90.0)),),
        ),
        Matrix(
            name="pairs", title="Probability of improvement", labels=("ppo",), values=((None,),)
        ),
    )
    part = SectionContent(name="scores", title="Scores", blocks=blocks)
    return ReportDocument(
        title="one", subtitle="one run", labels=("ppo",), parts=(part,), version="0.1.0"
    )


def all_impossible() -> ReportDocument:
    """Three labels, each an estimate without an interval."""
    part = SectionContent(
        name="scores",
        title="Scores",
        blocks=(without_intervals(aggregates(LABELS)), without_intervals(forest(LABELS))),
    )
    return ReportDocument(
        title="no spread", subtitle="", labels=LABELS, parts=(part,), version="0.1.0"
    )


def empty() -> ReportDocument:
    """Figures and tables without content, or with NaN and infinity."""
    axis = Axis(title="environment steps")
    nan, infinity = float("nan"), float("inf")
    gap = FigureLine(
        label="ppo", x=(0.0, 1.0), y=(None, None), low=(None, None), high=(None, None)
    )
    non_finite = FigureLine(label="a2c", x=(0.0, 1.0), y=(nan, infinity))
    mark = IntervalMark(label="ppo", interval=impossible(nan), dots=(nan,))
    blocks = (
        LineFigure(name="none", title="No line", x=axis, y=axis, lines=()),
        LineFigure(name="gaps", title="Only gaps", x=axis, y=axis, lines=(gap, non_finite)),
        IntervalFigure(name="no-panels", title="No panel", panels=()),
        IntervalFigure(
            name="no-marks",
            title="No marks",
            panels=(
                Panel(title="empty", axis=axis, marks=()),
                Panel(title="not a number", axis=axis, marks=(mark,)),
            ),
        ),
        Matrix(name="no-pairs", title="No pair", labels=(), values=()),
        Table(name="no-rows", title="No row", columns=(TableColumn(title="run"),), rows=()),
        Table(
            name="no-number", title="No number", columns=(TableColumn(title="x"),), rows=((nan,),)
        ),
    )
    part = SectionContent(name="nothing", title="Nothing", blocks=blocks)
    return ReportDocument(title="", subtitle="", labels=(), parts=(part,), version="0.1.0")


def logarithmic() -> ReportDocument:
    """A log axis over many decades, constant values, a wide table and negative scores."""
    x = (0.0, *(10.0**k for k in range(7)))
    lines = LineFigure(
        name="log",
        title="Regret",
        x=Axis(title="environment steps", log=True),
        y=Axis(title="regret", log=True),
        lines=(
            FigureLine(label="ppo", x=x, y=(5.0, *(1e3 / v**0.5 for v in x[1:]))),
            FigureLine(label="a2c", x=x, y=(None, 10.0, 3.0, 1.0, 0.0, -1.0, 0.0, 0.0)),
            FigureLine(label="dqn", x=(0.0, 1.0), y=(1.0, 0.0)),
        ),
    )
    constant = LineFigure(
        name="flat",
        title="Constant",
        x=Axis(title="environment steps"),
        y=Axis(title="return"),
        lines=(FigureLine(label="a2c", x=(0.0, 2e6), y=(-200.0, -200.0)),),
    )
    columns = tuple(TableColumn(title=f"task {k}", digits=1) for k in range(26))
    wide_table = Table(
        name="wide", title="Many tasks", columns=columns, rows=(tuple(range(26)),) * 3
    )
    part = SectionContent(name="odd", title="Odd axes", blocks=(lines, constant, wide_table))
    return ReportDocument(title="odd", subtitle="", labels=LABELS, parts=(part,), version="0.1.0")


def sweep() -> ReportDocument:
    """Forty trials, some pruned and some failed."""
    return sweep_of(40)


def hostile_sweep() -> ReportDocument:
    """Trials, parameters and choices whose names try to be code."""
    return sweep_with_names(HOSTILE)


def one_trial() -> ReportDocument:
    """A sweep of the default configuration alone."""
    return sweep_of(1)


SAMPLES: dict[str, Callable[[], ReportDocument]] = {
    make.__name__: make
    for make in (
        typical,
        many_runs,
        many_labels,
        hostile,
        one_run,
        all_impossible,
        empty,
        logarithmic,
        sweep,
        hostile_sweep,
        one_trial,
    )
}
"""Every sample by its name."""
