"""`rlexp best`: shows the best trial of a sweep, or writes its hyperparameters for reuse."""

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment, one_of
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.judge.best import BestTrialOfSweep
    from rlexp.console import Console
    from rlexp.metrics.estimate import Estimate


LONGEST_RANGE = 48
"""Characters of a range in a table, at most, where its values can be left out."""


def best(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            autocompletion=complete_experiment,
            help="The name of a sweep in runs/.",
        ),
    ],
    trial: Annotated[
        int | None,
        typer.Option("--trial", help="Show this trial instead of the best one.", min=0),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            autocompletion=one_of("yaml", "args", "json", "rl-zoo"),
            help="Print only the hyperparameters: yaml, args, json or rl-zoo.",
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save", metavar="NAME", help="Write conf/benchmark/NAME.yaml for +benchmark=NAME."
        ),
    ] = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Show the winner of a sweep, or write it for reuse.

    Before a winner is selected, the best trial so far is shown.
    """
    from rlexp.app.commands.judge.best import BestRequest, read_format
    from rlexp.app.commands.judge.best import best as use_case

    request = BestRequest(sweep=sweep, trial=trial, form=read_format(form), save=save)
    result = use_case(request, current_workspace(allow_import))
    render_result(result, console_for(as_json=as_json), show_best)


def show_best(result: "BestTrialOfSweep", console: "Console") -> None:
    """Show the trial with its scores, or print the requested text only."""
    from rlexp.cli.summaries import next_lines

    if result.text is not None:
        console.text(result.text)
        if result.file is not None:
            console.note(f"Wrote {result.file}")
        return
    for line in _head_lines(result):
        console.line(line)
    if result.parameters:
        console.line()
        _show_parameters(result, console)
    console.line()
    _show_scores(result, console)
    for line in _comparison_lines(result):
        console.line(line)
    _show_front(result, console)
    if result.file is not None:
        console.line(f"Wrote {result.file}")
    for line in next_lines(result.next):
        console.line(line)


def _head_lines(result: "BestTrialOfSweep") -> "Iterator[str]":
    from rlexp.records.selection import configuration_name
    from rlexp.text import format_count

    if result.selected:
        name = configuration_name(result.trial, result.winner)
        yield f"{result.experiment}: {name} was chosen from {format_count(result.trials, 'trial')}"
        yield f"Selection rule: {result.rule}."
    if result.caution is not None:
        yield result.caution


def _show_parameters(result: "BestTrialOfSweep", console: "Console") -> None:
    """A table of the searched hyperparameters, with all digits."""
    from rlexp.records.selection import configuration_name

    trial = configuration_name(result.trial, result.winner)
    rows = [
        {
            "parameter": row.parameter,
            "searched": short_range(row.searched),
            "default": _exact(row.default),
            trial: _exact(row.value),
        }
        for row in result.parameters
    ]
    columns = ["parameter", "searched", "default", *([trial] if result.trial else [])]
    console.table(rows, columns)


def _show_front(result: "BestTrialOfSweep", console: "Console") -> None:
    """The policies of the front: each objective in the last phase in which the policy has runs."""
    from rlexp.metrics.estimate_text import ends, possible
    from rlexp.text import format_number, format_score

    def shown(mean: "Estimate") -> str:
        # The runs of few seeds would not fit beside several objectives; the report has them.
        interval = f" {ends(mean, mean.digits)}" if possible(mean) else ""
        return f"{format_number(mean.estimate, mean.digits)}{interval}"

    front = result.front
    if front is None or not front.policies:
        return
    # The phases of a policy follow each other, so that the last one with runs stays.
    last = {row.name: row for row in front.policies if row.runs and row.on_front}
    rows = [
        {
            "front": row.name,
            "seeds": f"{row.runs} of {row.planned} {row.phase}",
            # The spread over seeds has no mean.
            **{
                name: shown(mean) if mean else format_score(row.values[name])
                for name, mean in row.means.items()
                if mean or name in row.values
            },
        }
        for row in last.values()
    ]
    console.line()
    console.table(rows, ["front", "seeds", *front.objectives])
    if any(row.phase != "test" for row in last.values()):
        console.line("Values on tuning and selection seeds chose the front, and are no results.")


def short_range(text: str) -> str:
    """A range in words; of a long list, the first values and the number of the others.

    `--json` has all of them.
    """
    if len(text) <= LONGEST_RANGE:
        return text
    values = list(_values(text))
    first = next(n for n, end in enumerate(accumulate(map(len, values)), 1) if end > LONGEST_RANGE)
    kept = max(first - 1, 1)
    others = len(values) - kept
    return f"{''.join(values[:kept]).rstrip(', ')} and {others} more" if others else text


def _values(text: str) -> "Iterator[str]":
    """The values of a list, each with the comma behind it."""
    # A comma between brackets belongs to a value, such as the layers of a network.
    depth = start = 0
    for position, sign in enumerate(text):
        depth += (sign in "[{") - (sign in "]}")
        if depth == 0 and text.startswith(", ", position):
            yield text[start : position + 2]
            start = position + 2
    yield text[start:]


def _exact(value: object) -> str | None:
    """A value with all its digits, so that it can be copied; None where it is not active.

    A schedule is not copied from a table: its values are shown in their order.
    """
    import json

    from rlexp.text import format_parameter

    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value.get("shape") == "steps":
        return format_parameter(value)
    return json.dumps(value)


def _show_scores(result: "BestTrialOfSweep", console: "Console") -> None:
    """A table of the mean scores by phase, with every score of few runs, and notes on intervals."""
    from rlexp.console.blocks import cell
    from rlexp.console.score_rows import COLUMN
    from rlexp.metrics.estimate_text import every_run, short_footnotes
    from rlexp.records.selection import configuration_name

    means = [m.mean for m in result.scores if m.mean is not None]
    scores = {m: "" if m.mean is None else every_run(m.mean) for m in result.scores}
    rows = [
        {
            "configuration": configuration_name(m.trial, result.winner, m.label),
            "seeds": f"{len(m.scores)} of {m.planned} {m.phase}",
            "mean": None if m.mean is None else cell(m.mean, COLUMN),
            "scores": scores[m] or None,
        }
        for m in result.scores
    ]
    columns = ["configuration", "seeds", "mean"]
    console.table(rows, [*columns, *(["scores"] if any(scores.values()) else [])])
    for note in short_footnotes(means):
        console.line(note)


def _comparison_lines(result: "BestTrialOfSweep") -> "Iterator[str]":
    from rlexp.metrics.estimate_text import optimism_text, with_ends

    if result.optimism is not None:
        yield optimism_text(result.optimism, lower_is_better=result.lower_is_better)
    if result.improvement is not None:
        yield (
            "Probability that a test run of tuned beats one of the default: "
            f"{with_ends(result.improvement, 2)}"
        )
