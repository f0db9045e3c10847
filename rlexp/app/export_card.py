"""The model card of a Hugging Face folder: what the policies score, with n, seeds and interval."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rlexp.config.front_matter import front_matter
from rlexp.metrics.estimate_words import sentence
from rlexp.reports.analysis.estimates import Estimates
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.characters import one_line
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
from rlexp.reports.evidence.runs import Member
from rlexp.reports.formats.markdown import render
from rlexp.reports.sections.missing import Missing
from rlexp.reports.sections.protocol import Protocol
from rlexp.reports.sentences import counted, listed, numbers
from rlexp.reports.wording import state, states
from rlexp.text import digits_for

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
    for section in (Missing(), Protocol()):
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
