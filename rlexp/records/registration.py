"""Registrations: studies that were sealed before their runs, with the root of their test seeds.

The root is derived from the hash of the study and from a nonce that others made public. Nobody can
know these test seeds before both exist. A study also seals what defines its metrics.
"""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self

from rlexp.protocol.experiment import Configuration, Failures
from rlexp.protocol.identity import Plain, digest
from rlexp.protocol.seeds import Phase, Seeds
from rlexp.records.integrity import SHORT
from rlexp.records.run import RunRecord
from rlexp.text import format_count

DECIDING = ("iqm", "interval", "level", "alpha", "margin", "repetitions", "seed", "normalisation")
"""The settings of reports, besides the metrics, that can change a verdict or an interval."""
METRIC_DEFINITIONS = "metric_definitions"
"""The sealed setting with the class and the values of every metric, by name."""
TEST = "permutation test"
"""The test of the verdicts, which is the same in every report."""
PURPOSE = "root of test seeds"
"""A part of what is hashed, so that no other hash of the same values is this root."""
DIGITS = 12
"""Hexadecimal digits of a root: 48 bits, which every JSON reader keeps exactly."""
METRIC_CLASS = "_target_"
"""The key of the class, as in `conf/metric`."""
CUT = "cut"
"""A field that is no part of a definition: the setting `iqm` of reports gives it its value."""


def root_of_test_seeds(study: str, nonce: str) -> int:
    """The root of the test seeds of a sealed study.

    Args:
        study: The sha256 of the study.
        nonce: The public nonce.
    """
    return int(digest([PURPOSE, str(Phase.TEST), study, nonce])[:DIGITS], 16)


@dataclass(frozen=True, kw_only=True)
class SealedStudy:
    """What a protocol seals.

    Attributes:
        question: The question that the study answers.
        configurations: The configurations with their labels and budgets.
        seeds: The test seeds: a number, or a list.
        failures: How failed runs count.
        settings: The settings of reports that decide a verdict, the names of the `metrics`, of
            which the first one decides, and the definitions of these metrics.
    """

    question: str
    configurations: tuple[Configuration, ...]
    seeds: Seeds
    failures: Failures
    settings: Plain

    @cached_property
    def hash(self) -> str:
        """The sha256 of question, labels, configurations, seeds, treatment of failures and settings.

        The same study has the same hash under every name and with every nonce.
        """
        configurations = sorted(
            [c.label, c.task, c.fingerprint, c.reference, c.measures] for c in self.configurations
        )
        return digest(
            [self.question, configurations, self._seeds(), self.failures, dict(self.settings)]
        )

    def _seeds(self) -> int | list[int]:
        return self.seeds if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def test_seeds(self) -> tuple[int, ...]:
        """The test seeds in order."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, each once."""
        return tuple(dict.fromkeys(c.label for c in self.configurations))

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks."""
        return frozenset(c.task for c in self.configurations)

    @property
    def alpha(self) -> float:
        """The level of the verdicts."""
        return float(self.settings["alpha"])

    @property
    def metric_definitions(self) -> dict[str, dict[str, Any]]:
        """The class (`_target_`) and the values of every sealed metric, by name.

        Empty where an earlier version of rlexp, which sealed the names alone, registered the study.
        """
        return dict(self.settings.get(METRIC_DEFINITIONS, {}))

    @property
    def metric(self) -> str:
        """The name of the metric that decides."""
        return str(self.settings["metrics"][0])

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "question": self.question,
            "configurations": [c.plain() for c in self.configurations],
            "seeds": self._seeds(),
            "failures": self.failures,
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A sealed study with its name, its nonce and the time of its registration.

    Attributes:
        protocol: The name of the protocol, which is that of its experiment.
        time: When it was registered, in seconds since 1970.
        nonce: The public nonce.
        nonce_source: Where the nonce comes from; None where nothing was said.
        looks: The head of the register of looks at that time; None where there was none.
        study: What was sealed.
    """

    protocol: str
    time: float
    nonce: str
    nonce_source: str | None
    looks: str | None
    study: SealedStudy

    @property
    def root(self) -> int:
        """The root of the test seeds."""
        return root_of_test_seeds(self.study.hash, self.nonce)

    @property
    def registered(self) -> str:
        """When it was registered (`2027-01-31 12:00 UTC`)."""
        return f"{datetime.fromtimestamp(self.time, UTC):%Y-%m-%d %H:%M} UTC"

    def plain(self) -> dict[str, Any]:
        """As JSON values: the name first, and a checksum of all values last."""
        values = {
            "protocol": self.protocol,
            "time": self.time,
            "hash": self.study.hash,
            "nonce": self.nonce,
            "nonce_source": self.nonce_source,
            "root": self.root,
            "looks": self.looks,
            "study": self.study.plain(),
        }
        return {**values, "sum": digest(values)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRegister:
    """The content of a register of protocols.

    Attributes:
        registrations: The registrations, in the order in which they were made.
        sums: The sha256 of every complete line.
        sha256: The sha256 of the whole file; None where there is none.
        breaks: Messages about lines that were changed, and about places where the chain is broken.
        torn: Whether the last line is incomplete.
    """

    registrations: tuple[Registration, ...] = ()
    sums: tuple[str, ...] = ()
    sha256: str | None = None
    breaks: tuple[str, ...] = ()
    torn: bool = False

    @property
    def head(self) -> str | None:
        """The sha256 of the last line, which depends on all lines; None for an empty register."""
        return self.sums[-1] if self.sums else None

    def named(self, name: str) -> Registration | None:
        """The registration of a name."""
        return next((r for r in self.registrations if r.protocol == name), None)

    def of_experiment(self, names: Sequence[str], root: int) -> Registration | None:
        """The registration to which an experiment belongs.

        The root comes first: an experiment that was copied under another name uses the sealed seeds.

        Args:
            names: The names that the experiment has had.
            root: The root of its seeds.
        """
        by_root = next((r for r in self.registrations if r.root == root), None)
        by_name = (self.named(name) for name in names)
        return by_root or next((r for r in by_name if r is not None), None)

    def same_study(self, registration: Registration) -> tuple[Registration, ...]:
        """Every registration of the same study, in order."""
        return tuple(r for r in self.registrations if r.study.hash == registration.study.hash)

    def on_tasks_of(self, registration: Registration) -> tuple[Registration, ...]:
        """Every registration that shares a task with this one, which is among them, in order."""
        tasks = registration.study.tasks
        return tuple(r for r in self.registrations if not tasks.isdisjoint(r.study.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredExperiment:
    """An experiment that belongs to a registration.

    Attributes:
        experiment: The name of the experiment.
        registration: The registration.
        number: The number of the registration among those on its tasks, from 1.
        on_tasks: Number of registrations that share a task with it, itself included.
        same_study: Number of registrations of the same study, itself included.
        deviations: The deviations of the definition and of the runs, each as a short text.
        runs: Number of planned runs that are judged; 0 for a plan.
        ended: Number of them that will not be attempted again.
    """

    experiment: str
    registration: Registration
    number: int
    on_tasks: int
    same_study: int
    deviations: tuple[str, ...]
    runs: int = 0
    ended: int = 0

    @classmethod
    def of(
        cls,
        experiment: str,
        registration: Registration,
        register: ProtocolRegister,
        deviations: tuple[str, ...],
        records: Collection[RunRecord] = (),
    ) -> Self:
        """An experiment with the records of its planned test runs, and with its registration counted among the others of the register."""
        on_tasks = register.on_tasks_of(registration)
        return cls(
            experiment=experiment,
            registration=registration,
            number=[r.root for r in on_tasks].index(registration.root) + 1,
            on_tasks=len(on_tasks),
            same_study=len(register.same_study(registration)),
            deviations=deviations,
            runs=len(records),
            ended=sum(map(_has_ended, records)),
        )

    @property
    def counted(self) -> str:
        """Which registration it is, as text; empty for the only one on its tasks."""
        if self.on_tasks == 1:
            return ""
        tasks = "its task" if len(self.registration.study.tasks) == 1 else "its tasks"
        same = f", {self.same_study} of them of this study" if self.same_study > 1 else ""
        return f"registration {self.number} of {self.on_tasks} on {tasks}{same}"

    @property
    def title(self) -> str:
        """The protocol with the first digits of its hash, and which registration it is."""
        counted = f", {self.counted}" if self.counted else ""
        registration = self.registration
        return f"{registration.protocol} (hash {registration.study.hash[:SHORT]}{counted})"

    @property
    def state(self) -> str:
        """Whether the protocol is kept, or what deviates, as every command says it."""
        if self.deviations:
            return f"deviates: {'; '.join(self.deviations)}"
        if self.ended < self.runs:
            so_far = f"{self.ended:,} of {format_count(self.runs, 'run')} have ended"
            return f"kept so far, {so_far}"
        return "kept"


def _has_ended(record: RunRecord) -> bool:
    scored = record.score is not None and math.isfinite(record.score)
    return scored or not record.may_run()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredExperiments:
    """The experiments of a report that belong to registrations.

    Attributes:
        experiments: The registered experiments.
        problems: What is wrong with the register, as sentences without a full stop.
    """

    experiments: tuple[RegisteredExperiment, ...] = ()
    problems: tuple[str, ...] = ()


def definition_of_metric(metric: object) -> dict[str, Any]:
    """The class of a metric as `_target_`, and the values of its fields.

    Two metrics with the same definition compute the same number. The code of the class is no part of it.
    """
    kind = type(metric)
    if is_dataclass(metric):
        values = {field.name: getattr(metric, field.name) for field in fields(metric)}
    else:
        values = dict(getattr(metric, "__dict__", {}))
    values.pop(CUT, None)
    # What was read from a register is JSON: tuples became lists there, for example.
    arguments: dict[str, Any] = json.loads(json.dumps(values, default=repr, sort_keys=True))
    return {METRIC_CLASS: f"{kind.__module__}.{kind.__qualname__}", **arguments}
