"""The blocks about an ablation: what each change between two configurations does, and what did it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.metrics.estimate_text import possible
from rlexp.reports.analysis.ablation_answer import ablation_answer, ablation_basis
from rlexp.reports.analysis.ablation_effects import (
    AblationEffects,
    ChangeEffects,
    Effect,
)
from rlexp.reports.drawing.axes import INTERVAL_PADDING
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    Callout,
    IntervalFigure,
    IntervalMark,
    Panel,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    without_empty_remarks,
)
from rlexp.text import format_cell

DECISIONS = {
    "better": "better",
    "worse": "worse",
    "equal": "undecided",
    "continue": "not finished",
}
"""How the decision on an effect is written."""
AXIS = "difference of the mean score"


def ablation_blocks(effects: AblationEffects, *, alone: bool) -> Iterator[Block]:
    """The answer, the effects as a table and as a figure, and warnings."""
    tone, text = ablation_answer(effects)
    yield Callout(tone=tone, text=text)
    yield Text(text=ablation_basis(effects))
    suffix = "" if alone else f"-{effects.experiment}"
    yield _table(effects, suffix)
    figure = _figure(effects, suffix)
    if figure is not None:
        yield figure
    yield from _warnings(effects)


def _table(effects: AblationEffects, suffix: str) -> Table:
    changes = effects.changes
    shown = [(title, name) for name, title in _titles(effects).items() if _any(changes, name)]
    columns = [TableColumn(title=title) for title in _value_titles(effects)]
    has_importance = any(c.importance is not None for c in changes)
    if has_importance:
        columns.append(TableColumn(title="importance"))
    for title, _ in shown:
        columns += [TableColumn(title=title), TableColumn(title="decision")]
    rows = [
        (
            change.name,
            values_text(change.old),
            values_text(change.new),
            *([change.importance] if has_importance else []),
            *(v for _, name in shown for v in _cells(getattr(change, name))),
            "; ".join(filter(None, [change.interaction, change.remark])) or None,
        )
        for change in changes
    ]
    blank = (None,) * (len(shown) - 1) * 2
    importance = (None,) if has_importance else ()
    rows.append(
        (_everything(effects), None, None, *importance, *_cells(effects.total), *blank, None)
    )
    return without_empty_remarks(
        Table(
            name=f"ablation{suffix}",
            title="Effect of each change",
            columns=(*columns, REMARK_COLUMN),
            rows=tuple(rows),
            note=_note(effects),
        )
    )


def _value_titles(effects: AblationEffects) -> tuple[str, str, str]:
    """The titles of the columns of a change and of its two values."""
    if effects.kind == "commits":
        return "commit", "before", "after"
    return "change", effects.total.second, effects.total.first


def _everything(effects: AblationEffects) -> str:
    """The name of all changes together."""
    return "all commits" if effects.kind == "commits" else "all changes"


def _titles(effects: AblationEffects) -> dict[str, str]:
    """The title of the column of each kind of effect, by its field."""
    total = effects.total
    return {
        "left_out": f"effect in {total.first}",
        "added": f"effect in {total.second}",
        "step": "effect of the commit" if effects.kind == "commits" else "effect of the step",
    }


def _any(changes: Sequence[ChangeEffects], name: str) -> bool:
    return any(getattr(change, name) is not None for change in changes)


def _cells(effect: Effect | None) -> tuple[Value, Value]:
    if effect is None:
        return None, None
    return effect.difference, DECISIONS[effect.decision]


def values_text(values: Mapping[str, Any]) -> str:
    """The values of a change: of a single key alone, of several keys with their names."""
    items = list(values.items())
    if len(items) == 1:
        return _value(items[0][1])
    return ", ".join(f"{key.rpartition('.')[2]}={_value(value)}" for key, value in items)


def _value(value: object) -> str:
    return "—" if value is None else format_cell(value)


def _note(effects: AblationEffects) -> str:
    total = effects.total
    sign = "lower" if effects.lower_is_better else "greater"
    meaning = {
        "each": (
            f"An effect is the score with the new value minus the score with the old one: in "
            f"{total.first} all other changes stay, in {total.second} none is made."
        ),
        "path": "An effect is the score of a step minus that of the step before.",
        "commits": "An effect is the score of a commit minus that of the commit before.",
    }[effects.kind]
    order = f" {effects.order}" if effects.order else ""
    return f"{meaning} Scores are {sign} where they are better.{order}"


def _figure(effects: AblationEffects, suffix: str) -> IntervalFigure | None:
    axis = _axis(effects)
    panels = tuple(
        Panel(
            title=title,
            axis=axis,
            marks=marks,
            marked=(("no effect", 0.0),),
        )
        for name, title in _titles(effects).items()
        if (marks := _marks(effects, name))
    )
    if not panels:
        return None
    return IntervalFigure(
        name=f"ablation-effects{suffix}", title="What did it", panels=panels, note=_note(effects)
    )


def _axis(effects: AblationEffects) -> Axis:
    """An axis for all panels, so that the effects in them can be compared by eye."""
    drawn = [
        end
        for effect in effects.effects
        if (d := effect.difference) is not None
        for end in (d.estimate, d.low, d.high, 0.0)
        if end is not None
    ]
    low, high = min(drawn, default=0.0), max(drawn, default=0.0)
    padding = INTERVAL_PADDING * (high - low)
    if not padding:
        return Axis(title=AXIS)
    return Axis(title=AXIS, low=low - padding, high=high + padding)


def _marks(effects: AblationEffects, name: str) -> tuple[IntervalMark, ...]:
    marks = [
        IntervalMark(label=change.name, interval=effect.difference)
        for change in effects.changes
        if (effect := getattr(change, name)) is not None and effect.difference is not None
    ]
    total = effects.total.difference
    if marks and total is not None:
        marks.append(IntervalMark(label=_everything(effects), interval=total))
    return tuple(marks)


def _warnings(effects: AblationEffects) -> Iterator[Block]:
    texts = dict.fromkeys(e.warning for e in effects.effects if e.warning is not None)
    yield from (Callout(tone=Tone.WARNING, text=text) for text in texts)
    lacking = [
        e for e in effects.effects if e.difference is not None and not possible(e.difference)
    ]
    if lacking:
        text = "Effects without an interval have too few runs for one at their level."
        yield Callout(tone=Tone.NOTE, text=text)
