"""Parsing of search spaces: from Hydra's grammar to domains and conditions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.config.first_words import in_hydra_grammar
from rlexp.config.overrides import parse_overrides
from rlexp.errors import ConfigError
from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Domain, Integer, Parameter, Prior, Real, Scale, Space

TAGS: Mapping[str, Scale] = {"log": "log", "flipped_log": "flipped_log"}
"""The tags of an interval and their scales; without a tag the scale is linear."""
VALUES_HINT = (
    "write interval(low, high), int(interval(low, high)), choice(first, second) or a list"
)
ENTRY_KEYS = ("values", "when", "prior")
PRIOR_KEYS = ("guess", "width")
WIDTH = 0.25
"""Width of a prior that names only a guess: a quarter of the range (PriorBand)."""
MOST_CHOICES = 1_000
"""The most values of a `range(…)`; more values need an interval."""


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """A parameter as written: values in Hydra's grammar or as a list, conditions, and a prior.

    If `when` is None, the conditions of an earlier entry stay; the same holds for `prior`.
    """

    values: Any
    when: Mapping[str, tuple[Any, ...]] | None = None
    prior: Prior | None = None


def read_entries(space: Any) -> dict[str, ParameterEntry | None]:
    """The parameters of `sweep.space` by dotted key; None for a removed parameter.

    Raises:
        ConfigError: A parameter stands twice, or has no values.
    """
    if space is None:
        return {}
    if not isinstance(space, Mapping):
        raise ConfigError(
            f"sweep.space={space!r} must be a mapping of parameters to values; for the values, "
            f"{VALUES_HINT}"
        )
    entries: dict[str, ParameterEntry | None] = {}
    for key, value in _dotted_entries(space, ""):
        if key in entries:
            raise ConfigError(
                f"sweep.space.{key} stands twice, nested and with dots; write it once"
            )
        entries[key] = read_entry(key, value)
    return entries


def read_entry(key: str, value: Any) -> ParameterEntry | None:
    """One parameter from the value of its key; None if the value is null.

    Raises:
        ConfigError: The parameter has no values, or an unknown key.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return ParameterEntry(value)
    if value.get("values") is None:
        raise ConfigError(
            f"sweep.space.{key} has no values; write values: VALUES on the line above when:"
        )
    if unknown := [name for name in value if name not in ENTRY_KEYS]:
        raise ConfigError.unknown(
            f"sweep.space.{key}: unknown key {unknown[0]!r}",
            str(unknown[0]),
            ENTRY_KEYS,
            code="unknown_setting",
            key=f"sweep.space.{key}.{unknown[0]}",
        )
    prior = None if value.get("prior") is None else _prior(key, value["prior"])
    return ParameterEntry(value["values"], _conditions(key, value.get("when")), prior)


def _prior(key: str, written: Any) -> Prior:
    """A prior: a guess alone, or a guess and its width."""
    name = f"sweep.space.{key}.prior"
    entry = written if isinstance(written, Mapping) else {"guess": written}
    if unknown := [str(word) for word in entry if word not in PRIOR_KEYS]:
        raise ConfigError.unknown(
            f"{name}: unknown key {unknown[0]!r}",
            unknown[0],
            PRIOR_KEYS,
            code="unknown_setting",
            key=f"{name}.{unknown[0]}",
        )
    if entry.get("guess") is None:
        raise ConfigError(f"{name} has no guess: write prior: {{guess: VALUE, width: {WIDTH}}}")
    width = entry.get("width", WIDTH)
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width <= 1:
        raise ConfigError(
            f"{name}.width={width} must be above 0 and at most 1: it is a share of the range",
            code="out_of_range",
            key=f"{name}.width",
        )
    return Prior(entry["guess"], float(width))


def check_prior(key: str, domain: Domain, prior: Prior) -> Prior:
    """The prior, if its guess is in the space.

    Raises:
        ConfigError: The guess is outside.
    """
    if not domain.holds(prior.guess):
        raise ConfigError(
            f"sweep.space.{key}.prior: guess {prior.guess} is outside of the space: {domain.text}",
            code="out_of_range",
            key=f"sweep.space.{key}.prior.guess",
            allowed=[domain.text],
        )
    return prior


def _dotted_entries(space: Mapping[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    for part, value in space.items():
        key = f"{path}{part}"
        # A mapping with `values` or `when` is a parameter; any other is one level of a dotted key.
        if isinstance(value, Mapping) and not set(value) & set(ENTRY_KEYS):
            yield from _dotted_entries(value, f"{key}.")
        else:
            yield key, value


def _conditions(key: str, when: Any) -> dict[str, tuple[Any, ...]]:
    if when is None:
        return {}
    if not isinstance(when, Mapping):
        raise ConfigError(
            f"sweep.space.{key}: when={when!r} must be a mapping; write when: {{KEY: VALUE}}"
        )
    flat = {p: tuple(v) if isinstance(v, list) else (v,) for p, v in _dotted_entries(when, "")}
    if never := [parent for parent, allowed in flat.items() if not allowed]:
        raise ConfigError(
            f"sweep.space.{key}: when: {never[0]} has no values; write one or more values"
        )
    return flat


def read_domain(key: str, values: Any, default: Any) -> Domain:
    """The domain of a parameter.

    Args:
        key: The key of the parameter, for errors.
        values: A text in Hydra's grammar, or a list, which is a choice.
        default: The default value of the parameter. If it is an integer, an interval with whole
            ends holds integers, although Hydra reads such an interval as real numbers.

    Raises:
        ConfigError: The values are not a choice, a range or an interval.
    """
    try:
        if isinstance(values, list):
            return Choice(tuple(values))
        return _domain(values, default)
    except ConfigError as error:
        raise error.rephrased(f"sweep.space.{key}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"sweep.space.{key}: {values!r} has a value that is not JSON, such as nan: {error}"
        ) from error


def _domain(text: Any, default: Any) -> Domain:
    from hydra.core.override_parser.types import IntervalSweep

    if not isinstance(text, str):
        raise ConfigError(f"{text!r} is a single value, not a set of values; {VALUES_HINT}")
    value = _sweep(text)
    if isinstance(value, IntervalSweep):
        return _interval(value, default)
    _check_length(text, value)
    if value.tags:
        raise ConfigError(f"{text}: only an interval can have a tag; {VALUES_HINT}")
    if value.shuffle:
        raise ConfigError(f"{text}: the order of a choice has no effect; remove shuffle()")
    return Choice(tuple(_listed_values(text)))


def _check_length(text: str, value: Any) -> None:
    """Refuse a range with too many values before each value is read and its plug-in built."""
    from hydra.core.override_parser.types import RangeSweep

    if not isinstance(value, RangeSweep) or value.start is None or value.stop is None:
        return
    low, high, step = float(value.start), float(value.stop), float(value.step)
    # The quotient is also positive for a range that counts down with a negative step.
    if step and (high - low) / step > MOST_CHOICES:
        raise ConfigError(
            f"{text} has more than {MOST_CHOICES:,} values: write interval({low:g}, {high:g})"
        )


def _sweep(text: str) -> Any:
    from hydra.core.override_parser.types import Glob

    try:
        (parsed,) = parse_overrides([f"values={text}"])
    except ConfigError as error:
        reason = str(error.__cause__).splitlines()[0]
        meant = in_hydra_grammar(text)
        hint = f"write {meant}" if meant else f"{reason}; {VALUES_HINT}"
        raise ConfigError(f"cannot read {text!r}: {hint}") from error
    if not parsed.is_sweep_override():
        raise ConfigError(f"{text!r} is a single value, not a set of values; {VALUES_HINT}")
    value = parsed.value()
    if isinstance(value, Glob):
        raise ConfigError(
            f"{text}: patterns are not allowed; write the options as choice(first, second)"
        )
    return value


def _listed_values(text: str) -> list[Any]:
    """The values of a choice or a range, each parsed as the value of a single override."""
    (parsed,) = parse_overrides([f"values={text}"])
    alone = parse_overrides(
        [f"value={text_of_a_value}" for text_of_a_value in parsed.sweep_string_iterator()]
    )
    return [text_of_a_value.value() for text_of_a_value in alone]


def _interval(interval: Any, default: Any) -> Domain:
    low, high = interval.start, interval.end
    if unknown := sorted(interval.tags - TAGS.keys()):
        raise ConfigError.unknown(f"unknown tag {unknown[0]!r}", unknown[0], TAGS)
    if len(interval.tags) > 1:
        raise ConfigError("an interval has one scale: tag it either log or flipped_log")
    scale: Scale = next((TAGS[tag] for tag in interval.tags), "linear")
    if not _is_whole(low, high, default):
        return Real(float(low), float(high), scale)
    if scale == "flipped_log":
        raise ConfigError(
            "flipped_log is a scale for real numbers below 1; for whole numbers use log or no tag"
        )
    return Integer(int(low), int(high), log=scale == "log")


def _is_whole(low: Any, high: Any, default: Any) -> bool:
    if isinstance(low, int) and isinstance(high, int):
        return True
    # In Python, True is an integer, too.
    meant = isinstance(default, int) and not isinstance(default, bool)
    return meant and float(low).is_integer() and float(high).is_integer()


def ordered(whens: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The keys in topological order of their conditions, ties in alphabetical order.

    The order of a space is therefore the same, regardless of how it was written.

    Raises:
        ConfigError: The conditions form a circle.
    """
    order: dict[str, None] = {}

    def visit(key: str, path: Sequence[str]) -> None:
        if key in path:
            circle = " → ".join([*path[path.index(key) :], key])
            raise ConfigError(
                f"sweep.space: the conditions form a circle: {circle}; remove one of them"
            )
        if key in order or key not in whens:
            return
        for parent in sorted(whens[key]):
            visit(parent, [*path, key])
        order[key] = None

    for key in sorted(whens):
        visit(key, [])
    return list(order)


def holds(value: Any, allowed: Sequence[Any]) -> bool:
    """Whether a condition allows a value; `1` is not `True`."""
    return canonical(value) in {canonical(item) for item in allowed}


def make_space(
    domains: Mapping[str, Domain],
    whens: Mapping[str, Mapping[str, Any]],
    priors: Mapping[str, Prior],
) -> Space:
    """The search space of these domains, parents before children.

    Raises:
        ConfigError: The space is empty, or a condition depends on a range.
    """
    try:
        return Space(
            parameters=tuple(
                Parameter(
                    key=key,
                    domain=domains[key],
                    when=dict(whens[key]),
                    prior=check_prior(key, domains[key], priors[key]) if key in priors else None,
                )
                for key in ordered(whens)
            ),
        ).searched()
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if "sweep.space" in text else f"sweep.space: {text}") from error
