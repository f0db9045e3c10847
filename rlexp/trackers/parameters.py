"""The settings of a configuration that services show as its parameters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rlexp.trackers import TrackedExperiment, TrackedRun

BOOKKEEPING = frozenset(
    {"schema", "rlexp", "id", "phase", "root", "seed", "label", "task", "fingerprint", "reference"}
)
"""Parts of a specification or a definition that no user has set as a parameter."""
NOISE = frozenset({"_target_", "plug_in"})
"""Keys that say which code is used: the name of a plug-in is a parameter, its class is none."""


def parameters(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a configuration by dotted key.

    Null, false and empty values are left out: they say that something is not used. The names of
    agent, algorithm and environment are kept under `agent`, `algorithm` and `environment`.
    """
    names = {
        group: part["plug_in"]["name"]
        for group, part in configuration.items()
        if isinstance(part, Mapping)
        and isinstance(part.get("plug_in"), Mapping)
        and "name" in part["plug_in"]
    }
    kept = {key: value for key, value in configuration.items() if key not in BOOKKEEPING}
    values = {
        key: value
        for key, value in flattened(kept).items()
        if not NOISE.intersection(key.split(".")) and _is_used(value)
    }
    return {**names, **values}


def _is_used(value: Any) -> bool:
    return value is not None and value is not False and value not in ("", [], {}, ())


def searched_keys(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the hyperparameters that a sweep searches; empty without a sweep."""
    sweep = definition.get("sweep")
    space = sweep.get("space") if isinstance(sweep, Mapping) else None
    listed = space if isinstance(space, Sequence) else ()
    return tuple(str(p["key"]) for p in listed if isinstance(p, Mapping) and "key" in p)


def shared_parameters(experiment: TrackedExperiment, run: TrackedRun) -> dict[str, Any]:
    """The parameters that all runs in the group of a run share.

    The runs of a sweep's search share those of its definition that are not searched. The runs of a
    label share those in which its configurations on all tasks agree.
    """
    if run.group == experiment.name and experiment.is_sweep:
        searched = searched_keys(experiment.definition)
        shared = common_parameters(experiment.configurations)
        return {k: v for k, v in shared.items() if not is_part_of(k, searched)}
    labelled = [c for c in experiment.configurations if c.get("label") == run.label]
    return common_parameters(labelled or [run.configuration])


def common_parameters(configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters in which all configurations agree."""
    first, *others = [parameters(configuration) for configuration in configurations] or [{}]
    absent = object()
    return {k: v for k, v in first.items() if all(o.get(k, absent) == v for o in others)}


def telling_parameters(experiment: TrackedExperiment, run: TrackedRun) -> dict[str, Any]:
    """The parameters that tell the runs of an experiment apart.

    These are the searched ones of a sweep, and otherwise those in which configurations differ. An
    experiment with a single configuration has none, so all parameters of the run are returned.
    """
    every = parameters(run.configuration)
    if experiment.is_sweep:
        searched = searched_keys(experiment.definition)
        return {k: v for k, v in every.items() if is_part_of(k, searched)}
    configurations = experiment.configurations
    if len(configurations) < 2:
        return every
    shared = common_parameters(configurations)
    return {k: v for k, v in every.items() if k not in shared}


def is_part_of(key: str, keys: Iterable[str]) -> bool:
    """Whether a dotted key is one of the keys, or lies below one of them."""
    return any(key == other or key.startswith(f"{other}.") for other in keys)


def flattened(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key (`algorithm.learning_rate`); list positions become keys too."""
    return dict(_leaves("", configuration))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list | tuple) and value:
        for position, item in enumerate(value):
            yield from _leaves(f"{path}.{position}", item)
    else:
        yield path, value
