"""The configuration of recorded runs as single values, under the keys that `rlexp run` takes."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import PLUG_IN, Plain, full_name, short_name
from rlexp.protocol.spec import CONFIGURATION, PLUG_INS, RunSpec

GROUPS = ("agent", "algorithm")
"""Parts whose key alone stands for the short name of the plug-in (`algorithm=ppo`)."""
OF_AN_EXPERIMENT = ("seeds", "failures", "sweep", "tuner", "pruner")
"""First words of the keys that all runs of an experiment share."""
FIRST_WORDS = frozenset({*CONFIGURATION, *PLUG_INS, *OF_AN_EXPERIMENT, "reference"})
"""The first words of all keys."""

Settings = Mapping[str, Any]
"""Values by key (`algorithm.learning_rate`); lists are values."""


class SettingsIndex:
    """The settings of the runs of one experiment; runs of one configuration share a mapping."""

    def __init__(self, experiment: Experiment | None) -> None:
        """With None, the experiment's definition cannot be read."""
        self._shared = dict(_of_experiment(experiment)) if experiment else {}
        self._known: dict[tuple[int, ...], Settings] = {}
        self._kept: list[tuple[Configuration, RunSpec]] = []

    def of(self, configuration: Configuration, spec: RunSpec) -> Settings:
        """The settings of a run with a configuration."""
        # By identity: the runs of a configuration share these objects, and comparing nested
        # mappings for each of ten thousand runs would be slow.
        parts = (getattr(spec, name) for name in CONFIGURATION)
        key = (id(configuration.reference), *map(id, parts))
        if key not in self._known:
            # Python reuses the `id` of a freed object, so that the objects are kept.
            self._kept.append((configuration, spec))
            self._known[key] = {**settings_of(configuration, spec.parts), **self._shared}
        return self._known[key]


def settings_of(configuration: Configuration, parts: Plain) -> Settings:
    """The settings of a configuration whose parts are those of `RunSpec.parts`."""
    settings: dict[str, Any] = {}
    for name, part in parts.items():
        settings.update(_flat(name, part))
    # An imported run may hold anything in place of a plug-in.
    settings.update((n, short_name(parts[n])) for n in GROUPS if isinstance(parts[n], Mapping))
    for group in ("replay", "dataset"):
        if group in parts:
            settings[group] = short_name(parts[group])
    settings["environment"] = configuration.task
    settings.update(_flat("reference", configuration.reference))
    return settings


def _flat(key: str, value: object) -> Iterator[tuple[str, Any]]:
    """The values below a key; a plug-in's own key holds its name."""
    if not isinstance(value, Mapping):
        yield key, value
        return
    if PLUG_IN in value:
        yield key, full_name(value[PLUG_IN])
    for name, inner in value.items():
        if name != PLUG_IN:
            yield from _flat(f"{key}.{name}", inner)


def _of_experiment(experiment: Experiment) -> Iterator[tuple[str, Any]]:
    yield from _flat("seeds", asdict(experiment.seeds))
    yield "failures", experiment.failures
    if (sweep := experiment.sweep) is not None:
        document = sweep.plain()
        yield "sweep", sweep.name
        yield from _flat("sweep", document["plan"])
        yield from _flat("tuner", document["tuner"])
        yield from _flat("pruner", document["pruner"])
