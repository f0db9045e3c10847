"""Checks of a composed sweep: settings that cannot work are refused before any training."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rlexp.config.search_space import SearchedGroups
from rlexp.config.sweep import SweepRequest
from rlexp.config.validate import LATER_GROUPS, PLUG_INS, ValidatedSettings, build, validate
from rlexp.errors import ConfigError
from rlexp.protocol.identity import short_name_of
from rlexp.protocol.measures import declaration_key, known_values
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Domain, Parameter, Space
from rlexp.protocol.units import UNIT

CURVE_OBJECTIVES = ("auc", "last_window", "steps_to_threshold")
"""Objectives that are computed from evaluations during training."""
SEED_PRUNERS = ("wilcoxon",)
"""Pruners that compare scores of whole runs, and need no evaluations during training."""


def check_sweep(request: SweepRequest, allowed: Sequence[str] = ()) -> None:
    """Refuse a sweep whose settings cannot work together.

    Args:
        request: The sweep.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: The default configuration or an extreme value of the space is invalid, no run
            produces an objective, a budget or a number of seeds is too small, or the pruner
            cannot work with the objectives.
    """
    root, _ = validate(request.plain, allowed)
    build(request.tuner, "tuner", allowed)
    pruner = short_name_of(type(build(request.pruner, "pruner", allowed)), "pruner")
    if not root.seeds.seeds(Phase.TUNING):
        raise ConfigError(
            "seeds.tuning is empty: a trial is scored on tuning seeds; set seeds.tuning to 1 or more"
        )
    _check_unit(request)
    _check_objectives(request, root, pruner)
    _check_budget(request, root)
    _check_screening(request, root)
    _check_pruner(request, root, pruner)
    check_values(request, allowed)


def _check_unit(request: SweepRequest) -> None:
    key = f"environment.{UNIT}"
    if key in request.space.keys:
        raise ConfigError(
            f"sweep.space.{key} would compare trials whose steps have different units, which are never "
            "mixed: start one sweep for each unit",
            key=key,
        )


def _evaluates(root: ValidatedSettings) -> bool:
    every = root.budget.evaluation_every
    return every is not None and every <= root.budget.steps


def _check_objectives(request: SweepRequest, root: ValidatedSettings, pruner: str) -> None:
    for objective in request.plan.objectives:
        if objective in CURVE_OBJECTIVES and not _evaluates(root):
            raise ConfigError(
                f"sweep.objective={objective} needs evaluations during training, and no run has any: "
                f"set budget.evaluation_every to budget.steps={root.budget.steps} or less",
            )
        if objective == "steps_to_threshold" and _threshold(root) is None:
            quantity, key = root.budget.quantity, declaration_key(root.budget.score)
            raise ConfigError(
                f"sweep.objective=steps_to_threshold needs the {quantity} at which the task is "
                f"solved: set {key}.threshold",
            )
        if objective == "spread":
            _check_spread(request, root, pruner)


def _threshold(root: ValidatedSettings) -> Any:
    reference = root.environment.get("reference") or {}
    measures = root.environment.get("measures") or {}
    return known_values(root.budget.score, reference, measures).get("threshold")


def _check_spread(request: SweepRequest, root: ValidatedSettings, pruner: str) -> None:
    if len(root.seeds.seeds(Phase.TUNING)) < 2:
        raise ConfigError(
            "sweep.objective=spread is a standard deviation over tuning seeds, and needs two: "
            "set seeds.tuning to 2 or more",
        )
    if request.plan.allocation == "two_stage":
        raise ConfigError(
            "sweep.objective=spread needs all tuning seeds of each trial, and "
            "sweep.allocation=two_stage runs each trial on one seed first: set sweep.allocation=fixed",
        )
    if request.plan.allocation == "racing":
        raise ConfigError(
            "sweep.objective=spread cannot be computed from a single run, and "
            "sweep.allocation=racing compares single runs: set sweep.allocation=fixed",
        )
    if pruner != "none":
        raise ConfigError(
            f"pruner={pruner} ends trials with low returns, and sweep.objective=spread does not "
            "depend on the return: set pruner=none",
        )
    if len(root.seeds.seeds(Phase.SELECTION)) == 1:
        raise ConfigError(
            "sweep.objective=spread cannot be computed on one selection seed: set seeds.selection "
            "to 2 or more, or to 0",
        )


def _check_budget(request: SweepRequest, root: ValidatedSettings) -> None:
    if root.budget.stop_at is not None:
        raise ConfigError(
            "budget.stop_at ends runs at different steps, and a sweep compares trials of equal steps: leave "
            "it out; 'sweep.objective=[score,steps_to_threshold]' prefers trials that reach a return early",
            key="budget.stop_at",
        )
    plan, steps = request.plan, root.budget.steps
    if plan.full_runs is not None and plan.full_runs < 1:
        raise ConfigError(
            f"sweep.full_runs={plan.full_runs:g} is less than one trial at the full budget: "
            "set sweep.full_runs to 1 or more",
        )
    seeds = len(root.seeds.seeds(Phase.TUNING))
    if plan.steps is not None and plan.steps < steps * seeds:
        raise ConfigError(
            f"sweep.steps={plan.steps} is less than one trial (budget.steps={steps} × "
            f"{seeds} {'seed' if seeds == 1 else 'seeds'} = {steps * seeds}): raise sweep.steps, "
            "or lower budget.steps",
        )


def _check_screening(request: SweepRequest, root: ValidatedSettings) -> None:
    screening, final = request.plan.screening_episodes, root.budget.final_episodes
    if screening is None:
        return
    key = "sweep.screening_episodes"
    if screening >= final:
        allowed = f"1 … {final - 1}" if final > 1 else "leave it out"
        raise ConfigError(
            f"{key}={screening} is not less than budget.final_episodes={final}: give fewer episodes "
            f"({allowed}), or raise budget.final_episodes",
            code="out_of_range",
            key=key,
            allowed=[allowed],
        )
    if len(root.seeds.seeds(Phase.TUNING)) < 2:
        raise ConfigError(
            f"{key}={screening} needs a second tuning seed, on which the best trials are scored "
            "with all episodes: set seeds.tuning to 2 or more, or leave it out",
            key=key,
        )


def _check_pruner(request: SweepRequest, root: ValidatedSettings, name: str) -> None:
    count = len(request.plan.objectives)
    if request.plan.allocation == "racing" and count > 1:
        raise ConfigError(
            f"sweep.allocation=racing compares one objective, and sweep.objective has {count}: "
            "set sweep.allocation=fixed, or write one objective",
        )
    if name == "none":
        return
    if count > 1:
        raise ConfigError(
            f"pruner={name} compares one objective, and sweep.objective has {count}: set "
            "pruner=none, or write one objective",
        )
    if name in SEED_PRUNERS:
        if request.plan.allocation == "two_stage":
            raise ConfigError(
                f"pruner={name} ends a trial between two seeds, and sweep.allocation=two_stage "
                "runs each trial on one seed first: set sweep.allocation=fixed, or racing",
            )
    elif not _evaluates(root):
        raise ConfigError(
            f"pruner={name} needs evaluations, and no run has any: set budget.evaluation_every "
            f"to budget.steps={root.budget.steps} or less, or pruner=none",
        )


def check_values(request: SweepRequest, allowed: Sequence[str] = ()) -> None:
    """Build every combination of groups with each extreme value of each parameter.

    Raises:
        ConfigError: A value is invalid. The error names the parameter, the value and the reason.
    """
    groups = _searched_groups(request)
    for options in groups.combinations():
        _check_combination(request, options, allowed)
        for parameter in _parameters_with(request, groups, options):
            _check_parameter(request, parameter, options, allowed)


def _searched_groups(request: SweepRequest) -> SearchedGroups:
    """The configuration groups of which the sweep searches the option."""
    names = request.configurations.groups
    chosen = [p for p in request.space.parameters if p.key in names]
    return SearchedGroups(
        {p.key: p.domain for p in chosen if isinstance(p.domain, Choice)},
        {p.key: {k: tuple(v) for k, v in p.when.items()} for p in chosen},
    )


def _parameters_with(
    request: SweepRequest, groups: SearchedGroups, options: Mapping[str, str]
) -> Iterator[Parameter]:
    """The keys of the configuration that are searched with these options of the groups."""
    for parameter in request.space.parameters:
        whole = groups.admits(options, {k: tuple(v) for k, v in parameter.when.items()})
        is_group = parameter.key in request.configurations.groups
        if whole and not is_group and not parameter.is_switch:
            yield parameter


def largest_trials(request: SweepRequest, keys: Collection[str]) -> Iterator[dict[str, Any]]:
    """Parameters of trials with the largest values of some keys.

    For each combination of groups: all of these keys at their largest values together, and each key
    alone, because together they may be invalid, or never active in one trial.

    Args:
        request: The sweep.
        keys: Searched keys with numbers.
    """
    groups = _searched_groups(request)
    for options in groups.combinations():
        counting = [p for p in _parameters_with(request, groups, options) if p.key in keys]
        largest = {p.key: _largest(p.domain) for p in counting}
        yield _example(request, {**largest, **options})
        for parameter in counting:
            forced = {**_ancestors(parameter, request.space), **options}
            yield _example(request, {**largest, **forced})
            yield _example(request, {**forced, parameter.key: largest[parameter.key]})


def _largest(domain: Domain) -> Any:
    numbers = [value for value in extreme_values(domain) if isinstance(value, int | float)]
    return max(numbers, default=extreme_values(domain)[0])


def _check_combination(
    request: SweepRequest, options: Mapping[str, str], allowed: Sequence[str]
) -> None:
    if not options:
        return
    try:
        validate(request.configurations.configure(options), allowed)
    except ConfigError as error:
        raise error.rephrased(f"sweep.space: with {_format_options(options)}: {error}") from error


def _check_parameter(
    request: SweepRequest,
    parameter: Parameter,
    options: Mapping[str, str],
    allowed: Sequence[str],
) -> None:
    forced = {**_ancestors(parameter, request.space), **options}
    # Most constraints of plug-ins are ranges: a value between two valid ends is valid.
    for value in extreme_values(parameter.domain):
        values = _example(request, {**forced, parameter.key: value})
        if parameter.key not in values:
            continue
        try:
            _build(request.configure(values), parameter.key, allowed)
        except ConfigError as error:
            where = f" with {_format_options(options)}" if options else ""
            raise ConfigError(
                f"sweep.space.{parameter.key} has an invalid value, {value}{where}: {error}",
            ) from error


def _build(settings: Mapping[str, Any], key: str, allowed: Sequence[str]) -> None:
    group = key.split(".", maxsplit=1)[0]
    # Building the one plug-in that has the key is faster than validating everything.
    if group in {*PLUG_INS, *LATER_GROUPS}:
        build(settings[group], group, allowed)
    else:
        validate(settings, allowed)


def extreme_values(domain: Domain) -> tuple[Any, ...]:
    """The values of a domain that are most likely invalid: both ends, or all choices."""
    return domain.values if isinstance(domain, Choice) else (domain.low, domain.high)


def _ancestors(parameter: Parameter, space: Space) -> dict[str, Any]:
    """Values of other parameters that make this one active."""
    by_key = {p.key: p for p in space.parameters}
    values_of_parents: dict[str, Any] = {}
    for parent, values in parameter.when.items():
        values_of_parents |= {**_ancestors(by_key[parent], space), parent: values[0]}
    return values_of_parents


def _example(request: SweepRequest, forced: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a trial: forced values, then defaults, then the middle of the domain."""
    values: dict[str, Any] = {}
    for parameter in request.space.parameters:
        # Parents stand first in a space, so `values` holds them already.
        if parameter.is_active(values):
            values[parameter.key] = (
                forced[parameter.key]
                if parameter.key in forced
                else _typical(parameter, request.default)
            )
    return values


def _typical(parameter: Parameter, default: Mapping[str, Any]) -> Any:
    share = parameter.domain.to_unit(default.get(parameter.key))
    return parameter.domain.from_unit(0.5 if share is None else share)


def _format_options(options: Mapping[str, str]) -> str:
    return " ".join(f"{group}={option}" for group, option in options.items())
