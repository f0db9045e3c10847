"""From the words of `rlexp sweep` to an experiment whose configurations are still to be found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.execution.compatibility import Spaces, check_fit
from rlexp.app.execution.external import keep_files
from rlexp.app.execution.request import configuration_of, derive_name, plain_part, require_minimum
from rlexp.app.tracking.mirror_client import Trackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import Composed
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep
from rlexp.config.validate import Parts, build, validate
from rlexp.errors import ConfigError, ProtocolError
from rlexp.executors import Executor
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.sweep import Sweep
from rlexp.store.layout import check_name
from rlexp.store.sweeps import DEFAULT_LABEL


@dataclass(frozen=True, slots=True)
class Asked:
    """What one command asks for; `storage` is where the search is mirrored to."""

    experiment: Experiment
    request: SweepRequest
    executor: Executor
    budget: Budget
    trackers: Trackers
    parts: Parts

    @property
    def sweep(self) -> Sweep:
        """How configurations are found."""
        assert self.experiment.sweep is not None
        return self.experiment.sweep


def split_definition(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name of a definition, if words begin with one, and the configuration after it."""
    given = list(words)
    is_name = bool(given) and "=" not in given[0] and given[0][:1] not in "~+"
    return (given.pop(0) if is_name else None), given


def read_sweep(name: str | None, words: Sequence[str], workspace: Workspace) -> Asked:
    """Turn a definition and words into an experiment; starts nothing and writes nothing.

    Raises:
        ConfigError: Something in them is unknown, mistyped, out of range or contradictory.
    """
    workspace.make_importable()
    request = compose_sweep(name, words, workspace.folder)
    root, parts = validate(request.plain, workspace.allowed)
    configuration = configuration_of(Composed(request.plain, ()), root, parts)
    check_sweep(request, workspace.allowed)
    if root.failures == "worst":
        require_minimum([configuration])
    lag = request.plan.lag
    workers = parts.executor.workers_for(root.compute.threads)
    plan = replace(request.plan, lag=2 * workers - 1 if lag is None else lag)
    experiment = Experiment(
        name="",
        configurations=(replace(configuration, label=DEFAULT_LABEL),),
        seeds=root.seeds,
        failures=root.failures,
        sweep=Sweep(
            name=name or "",
            space=request.space,
            tuner=_searching("tuner", request.tuner, workspace),
            pruner=_searching("pruner", request.pruner, workspace),
            plan=plan,
        ),
    )
    named = root.experiment or name or derive_name(experiment)
    named_experiment = replace(experiment, name=check_name(named))
    trackers = Trackers.of(request.plain, parts)
    return Asked(named_experiment, request, parts.executor, root.budget, trackers, parts)


def _searching(group: str, given: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The tuner or the pruner of a sweep, as its definition holds it."""
    return plain_part(given, build(given, group, workspace.allowed), group)


@dataclass(slots=True)
class Configurer:
    """Makes configurations of parameters; what cannot be run is refused with its reason."""

    asked: Asked
    workspace: Workspace
    spaces: dict[str, Spaces]

    def check_default(self) -> None:
        """Refuse a sweep whose default configuration cannot be run.

        Raises:
            ConfigError: It cannot; says why.
        """
        default = self.asked.experiment.default
        built = {default.fingerprint: self.asked.parts}
        check_fit([default], self.workspace, self.spaces, built)

    def configure(
        self, number: int, parameters: Mapping[str, Any], steps: int | None
    ) -> tuple[Configuration | None, str]:
        """The configuration of a trial; nothing, and why, where it cannot be run."""
        label = f"trial {number}"
        if number == 0:
            return replace(self.asked.experiment.default, label=label), ""
        try:
            plain = self.asked.request.configure(parameters, steps)
            keep_files(plain, self.asked.request.plain, self.asked.experiment.default)
            root, parts = validate(plain, self.workspace.allowed)
            configuration = configuration_of(Composed(plain, ()), root, parts)
            built = {configuration.fingerprint: parts}
            check_fit([configuration], self.workspace, self.spaces, built)
        except (ConfigError, ProtocolError) as error:
            return None, str(error)
        return replace(configuration, label=label), ""
