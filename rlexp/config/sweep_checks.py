"""What a sweep asks for that cannot be had, said in one line before anything trains."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.config.search_space import SearchedGroups
from rlexp.config.sweep import SweepRequest
from rlexp.config.validate import PLUG_INS, Root, build, validate
from rlexp.errors import ConfigError
from rlexp.protocol.identity import short_name_of
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Domain, Parameter, Space

CURVE_OBJECTIVES = ("auc", "last_window", "steps_to_threshold")
"""Objectives that are read from evaluations during training."""
SEED_PRUNERS = ("wilcoxon",)
"""Pruners that compare scores of whole runs, and read no evaluation."""


def check_sweep(request: SweepRequest, allowed: Sequence[str] = ()) -> None:
    """Refuse a sweep that cannot do what it says.

    Args:
        request: The sweep.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: The default configuration or an end of the space is refused, an objective
            is not produced, a budget or a number of seeds is too small, a pruner has no use.
    """
    root, _ = validate(request.plain, allowed)
    build(request.tuner, "tuner", allowed)
    pruner = short_name_of(type(build(request.pruner, "pruner", allowed)), "pruner")
    if not root.seeds.seeds(Phase.TUNING):
        raise ConfigError(
            "seeds.tuning is empty: a trial is scored on tuning seeds; ask for one or more"
        )
    _check_objectives(request, root, pruner)
    _check_budget(request, root)
    _check_pruner(request, root, pruner)
    check_values(request, allowed)


def _evaluates(root: Root) -> bool:
    every = root.budget.evaluation_every
    return every is not None and every <= root.budget.steps


def _check_objectives(request: SweepRequest, root: Root, pruner: str) -> None:
    for objective in request.plan.objectives:
        if objective in CURVE_OBJECTIVES and not _evaluates(root):
            raise ConfigError(
                f"sweep.objective={objective} reads the evaluation curve, and no run has one: "
                f"set budget.evaluation_every to budget.steps={root.budget.steps} or less",
            )
        if objective == "steps_to_threshold" and _threshold(root) is None:
            raise ConfigError(
                "sweep.objective=steps_to_threshold needs the return at which the task is "
                "solved: set environment.reference.threshold",
            )
        if objective == "spread":
            _check_spread(request, root, pruner)


def _threshold(root: Root) -> Any:
    return (root.environment.get("reference") or {}).get("threshold")


def _check_spread(request: SweepRequest, root: Root, pruner: str) -> None:
    if len(root.seeds.seeds(Phase.TUNING)) < 2:
        raise ConfigError(
            "sweep.objective=spread is a deviation over tuning seeds, and one seed has none: "
            "set seeds.tuning to 2 or more",
        )
    if request.plan.allocation == "two_stage":
        raise ConfigError(
            "sweep.objective=spread needs all tuning seeds of each trial, and "
            "sweep.allocation=two_stage screens on one: set sweep.allocation=fixed",
        )
    if request.plan.allocation == "racing":
        raise ConfigError(
            "sweep.objective=spread is no number of a single run, and sweep.allocation=racing "
            "compares run by run: set sweep.allocation=fixed",
        )
    if pruner != "none":
        raise ConfigError(
            f"pruner={pruner} gives up what returns little, and sweep.objective=spread asks for no "
            "return: set pruner=none",
        )
    if len(root.seeds.seeds(Phase.SELECTION)) == 1:
        raise ConfigError(
            "sweep.objective=spread has no value on one selection seed: set seeds.selection to 2 "
            "or more, or to 0",
        )


def _check_budget(request: SweepRequest, root: Root) -> None:
    plan, steps = request.plan, root.budget.steps
    if plan.full_runs is not None and plan.full_runs < 1:
        raise ConfigError(
            f"sweep.full_runs={plan.full_runs:g} is less than one trial at the full budget: "
            "raise it to 1 or more",
        )
    seeds = len(root.seeds.seeds(Phase.TUNING))
    if plan.steps is not None and plan.steps < steps * seeds:
        raise ConfigError(
            f"sweep.steps={plan.steps} is less than one trial (budget.steps={steps} × "
            f"{seeds} {'seed' if seeds == 1 else 'seeds'} = {steps * seeds}): raise it, or lower "
            "budget.steps",
        )


def _check_pruner(request: SweepRequest, root: Root, name: str) -> None:
    count = len(request.plan.objectives)
    if request.plan.allocation == "racing" and count > 1:
        raise ConfigError(
            f"sweep.allocation=racing compares one number, and sweep.objective names {count}: set "
            "sweep.allocation=fixed, or name one objective",
        )
    if name == "none":
        return
    if count > 1:
        raise ConfigError(
            f"pruner={name} compares one number, and sweep.objective names {count}: set "
            "pruner=none, or name one objective",
        )
    if name in SEED_PRUNERS:
        if request.plan.allocation == "two_stage":
            raise ConfigError(
                f"pruner={name} ends a trial between its seeds, and "
                "sweep.allocation=two_stage screens on one: set sweep.allocation=fixed, or racing",
            )
    elif not _evaluates(root):
        raise ConfigError(
            f"pruner={name} reads evaluations, and no run has any: set budget.evaluation_every "
            f"to budget.steps={root.budget.steps} or less, or pruner=none",
        )


def check_values(request: SweepRequest, allowed: Sequence[str] = ()) -> None:
    """Build every combination of groups, with each end of a range and each choice in turn.

    Raises:
        ConfigError: Names the parameter, its value, and why that is refused.
    """
    space, names = request.space, request.configurations.groups
    chosen = [p for p in space.parameters if p.key in names and isinstance(p.domain, Choice)]
    groups = SearchedGroups(
        {p.key: p.domain for p in chosen if isinstance(p.domain, Choice)},
        {p.key: {k: tuple(v) for k, v in p.when.items()} for p in chosen},
    )
    for options in groups.combinations():
        _check_combination(request, options, allowed)
        for parameter in space.parameters:
            whole = groups.admits(options, {k: tuple(v) for k, v in parameter.when.items()})
            if whole and parameter.key not in names and not parameter.is_switch:
                _check_parameter(request, parameter, options, allowed)


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
    for value in extreme_values(parameter.domain):
        values = _example(request, {**forced, parameter.key: value})
        if parameter.key not in values:
            continue
        try:
            _build(request.configure(values), parameter.key, allowed)
        except ConfigError as error:
            where = f" with {_format_options(options)}" if options else ""
            raise ConfigError(
                f"sweep.space.{parameter.key} may be {value}{where}, which is refused: {error}",
            ) from error


def _build(settings: Mapping[str, Any], key: str, allowed: Sequence[str]) -> None:
    group = key.split(".", maxsplit=1)[0]
    if group in PLUG_INS:
        build(settings[group], group, allowed)
    else:
        validate(settings, allowed)


def extreme_values(domain: Domain) -> tuple[Any, ...]:
    """The values at which a domain is most likely to be refused: its ends, or all there are."""
    return domain.values if isinstance(domain, Choice) else (domain.low, domain.high)


def _ancestors(parameter: Parameter, space: Space) -> dict[str, Any]:
    """Values of other parameters at which this one is there."""
    by_key = {p.key: p for p in space.parameters}
    values_of_parents: dict[str, Any] = {}
    for parent, values in parameter.when.items():
        values_of_parents |= {**_ancestors(by_key[parent], space), parent: values[0]}
    return values_of_parents


def _example(request: SweepRequest, forced: Mapping[str, Any]) -> dict[str, Any]:
    """A trial with these values; the others are the default's, or in the middle."""
    values: dict[str, Any] = {}
    for parameter in request.space.parameters:
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
