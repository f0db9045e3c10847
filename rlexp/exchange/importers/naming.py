"""Labels, tasks and seeds of imported runs, from paths and parameters, and the choice of runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rlexp.conditions import Condition
from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.imported_study import (
    ImportOptions,
    MalformedError,
    malformed_error,
)
from rlexp.exchange.importers.parse_values import parse_name, parse_whole_number, shortened_repr
from rlexp.text import format_count

SCOPES = ("params.", "tags.", "param.", "tag.")
"""Prefixes that may be written before the name of a parameter or a tag."""
MOST_NAMES = 20
"""Names that an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a source says about one run.

    Attributes:
        name: The name of the run, for messages.
        source: The name of the file or the store that holds the run.
        paths: Paths to which a pattern is compared, the preferred one first.
        parameters: Parameters of the run as texts, by name.
        label: The label that the source names.
        task: The task that the source names.
        seed: The seed that the source names.
        where: The place in the source, for messages.
    """

    name: str
    source: str
    paths: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    task: str | None = None
    seed: int | None = None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Label, task and seed of a run, and the parameters that its label names."""

    label: str
    task: str
    seed: int | None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RunNaming:
    """Names the runs of one source, and remembers what it has seen for messages.

    Attributes:
        options: The user's options.
        seen: Values of every parameter of every run, by name.
        chosen: Number of runs that satisfy the conditions.
        refused: Number of runs that do not satisfy them.
    """

    options: ImportOptions
    seen: dict[str, set[str]] = field(default_factory=dict)
    chosen: int = 0
    refused: int = 0

    def identify(self, facts: RunFacts) -> RunIdentity | None:
        """Label, task and seed of a run; None if the conditions leave the run out.

        Raises:
            MalformedError: The path does not fit the pattern, the run lacks a parameter, or
                nothing names its label or task.
        """
        options, in_path = self.options, self._in_path(facts)
        parameters = {**facts.parameters, **in_path}
        label = options.label or in_path.get("label") or facts.label
        task = options.task or in_path.get("task")
        task = task or self._parameter(facts, parameters, options.task_from) or facts.task
        seed = self._seed(facts, parameters, in_path)
        parts = {"label": label, "task": task, "seed": None if seed is None else str(seed)}
        named = {key: value for key, value in parts.items() if value is not None}
        if not self._chooses({**named, **parameters}):
            return None
        settings = {
            key: str(self._parameter(facts, parameters, key)) for key in options.label_from
        }
        return RunIdentity(
            label=_required(_extended(label, settings), facts, "label"),
            task=_required(task, facts, "task"),
            seed=seed,
            settings=settings,
        )

    def check(self) -> None:
        """Refuse conditions that no run satisfies; call it when every run was identified.

        Raises:
            ConfigError: No run has the parameter of a condition, or the conditions leave no run.
        """
        if self.chosen or not self.refused:
            return
        for condition in self.options.where:
            values = self.seen.get(condition.name) or self.seen.get(_unscoped(condition.name))
            if values is None:
                raise ConfigError(
                    f"--where {condition}: no run has {condition.name!r}"
                    f"{did_you_mean(condition.name, self.seen)} (there are: {_listed(self.seen)}); "
                    "nothing was imported"
                )
        conditions = " and ".join(f"--where {condition}" for condition in self.options.where)
        values_seen = "; ".join(
            f"{c.name} is {_listed(self.seen.get(c.name) or self.seen[_unscoped(c.name)])}"
            for c in self.options.where
        )
        raise ConfigError(
            f"{conditions}: no run satisfies it ({values_seen}); nothing was imported"
        )

    def left_out(self) -> Iterator[str]:
        """Yield a line about runs that the conditions leave out."""
        if self.refused:
            conditions = " and ".join(f"--where {condition}" for condition in self.options.where)
            yield f"{format_count(self.refused, 'run')} because of {conditions}"

    def _in_path(self, facts: RunFacts) -> Mapping[str, str]:
        pattern = self.options.path
        if pattern is None:
            return {}
        for path in facts.paths:
            if (values := pattern.match(path)) is not None:
                return values
        shown = facts.paths[0] if facts.paths else facts.name
        what = (
            f"--path {pattern.text!r} fits no part of its path {shortened_repr(shown)}"
            if facts.paths
            else f"--path {pattern.text!r} needs files, and this run has no path"
        )
        hint = "; give a folder further up, or another pattern" if facts.paths else ""
        raise malformed_error(facts.source, facts.where, f"{what}{hint}")

    def _seed(
        self, facts: RunFacts, parameters: Mapping[str, str], in_path: Mapping[str, str]
    ) -> int | None:
        if "seed" in in_path:
            return int(in_path["seed"])
        key = self.options.seed_from
        if key is None:
            return facts.seed
        value = self._parameter(facts, parameters, key)
        return None if value is None else parse_whole_number(value, facts.source, facts.where, key)

    def _parameter(
        self, facts: RunFacts, parameters: Mapping[str, str], key: str | None
    ) -> str | None:
        if key is None:
            return None
        value = look_up(parameters, key)
        if value is None:
            # A run that the conditions leave out anyway needs no parameter.
            if not all(_satisfies(parameters, condition) for condition in self.options.where):
                return None
            what = f"{facts.name} has no parameter {key!r}{did_you_mean(key, parameters)}"
            raise malformed_error(
                facts.source, facts.where, f"{what} (there are: {_listed(parameters)})"
            )
        return value

    def _chooses(self, facts: Mapping[str, str]) -> bool:
        for key, value in facts.items():
            self.seen.setdefault(key, set()).add(value)
        chosen = all(_satisfies(facts, condition) for condition in self.options.where)
        self.chosen += chosen
        self.refused += not chosen
        return chosen


def look_up(parameters: Mapping[str, str], key: str) -> str | None:
    """The value of a parameter; `params.` and `tags.` may be written before its name."""
    return parameters.get(key, parameters.get(_unscoped(key)))


def _unscoped(key: str) -> str:
    scope = next((scope for scope in SCOPES if key.startswith(scope)), "")
    return key.removeprefix(scope)


def _satisfies(facts: Mapping[str, str], condition: Condition) -> bool:
    value = look_up(facts, condition.name)
    return value is not None and condition.holds_for_text(value)


def _extended(label: str | None, settings: Mapping[str, str]) -> str | None:
    """The label with the parameters that it does not name already."""
    further = [f"{key}={value}" for key, value in settings.items() if value != label]
    return " ".join([*([label] if label else []), *further]) or None


def _required(value: str | None, facts: RunFacts, option: str) -> str:
    if value is not None:
        return parse_name(value, facts.source, facts.where, option)
    raise _nameless(facts, option)


def _nameless(facts: RunFacts, option: str) -> MalformedError:
    in_path = f", or --path '{{{option}}}/…' where its path names it" if facts.paths else ""
    listed = f" (there are: {_listed(facts.parameters)})" if facts.parameters else ""
    from_one = f", or --{option}-from PARAMETER{listed}" if facts.parameters else ""
    what = f"nothing names a {option} for it: give --{option} NAME{in_path}{from_one}"
    return malformed_error(facts.source, facts.where, what)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = ", …" if len(ordered) > MOST_NAMES else ""
    return ", ".join(name[:60] for name in ordered[:MOST_NAMES]) + more or "none"
