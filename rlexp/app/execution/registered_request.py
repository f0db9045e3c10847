"""Turns a registered protocol into an experiment, for `rlexp run --protocol`.

The configurations are those that the register holds: no file of the workspace can change them. Words may
change the budget and the number of seeds. The command then says that it deviates.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

from rlexp.app.execution.changed_budget import with_changed_budget
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.request import RunRequest
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.overrides import ATTEMPT_KEYS, parse_overrides, split_override
from rlexp.config.study_file import is_study_file
from rlexp.config.validate import validate
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.records.registration import Registration
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.protocols import read_protocols

PROTOCOL = "--protocol"
"""The option of `rlexp run` that names a protocol."""
CHANGEABLE = re.compile(r"(seeds\.test|failures|budget\.\w+|(executor|tracker)([./].*)?)")
"""Keys that a command may give; other budgets, seeds and failures are deviations."""


def find_registration(name: str, workspace: Workspace) -> Registration:
    """The registration of a name.

    Raises:
        RecordError: There is none; the message lists the registered names.
    """
    register = read_protocols(workspace.layout)
    registration = register.named(name)
    if registration is not None:
        return registration
    if register.breaks:
        raise RecordError(
            f"{name} is not in the register of protocols, which was changed ({register.breaks[0]}); "
            "to see every place: rlexp verify",
            command="rlexp verify",
        )
    names = [r.protocol for r in register.registrations]
    existing = f" (there are: {', '.join(names)})" if names else ""
    raise RecordError(
        f"there is no protocol {name!r}{existing}; to register one: rlexp register NAME study.yaml "
        "--nonce TEXT",
        code="unknown_experiment",
        key=name,
        allowed=names,
    )


def protocol_command(name: str, overrides: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that runs a protocol."""
    return ("rlexp", "run", PROTOCOL, name, *overrides)


def request_of_protocol(name: str, overrides: Sequence[str], workspace: Workspace) -> RunRequest:
    """The experiment of a protocol, with the root that was derived for its test seeds.

    Raises:
        RlexpError: There is no such protocol, its code is not allowed, or an override is wrong or
            would change what is sealed.
    """
    registration = find_registration(name, workspace)
    study = registration.study
    keys = _check_keys(name, overrides)
    workspace.make_importable()
    command = protocol_command(name, [*overrides, *workspace.permission])
    check_imports(study.configurations, workspace.allowed, command)
    composed = compose(overrides, workspace.folder)
    if len(composed) > 1:
        raise ConfigError(f"the configurations of {name} are sealed: leave out comma choices")
    root, parts = validate(composed[0].plain, workspace.allowed)
    experiment = Experiment(
        name=name,
        configurations=tuple(
            with_changed_budget(c, root, overrides, keys) for c in study.configurations
        ),
        seeds=SeedPlan(
            root=registration.root,
            tuning=0,
            selection=0,
            test=root.seeds.test if "seeds.test" in keys else study.seeds,
        ),
        failures=root.failures if "failures" in keys else study.failures,
    )
    if not experiment.seeds.seeds(Phase.TEST):
        raise ConfigError("seeds.test is empty: there is nothing to run")
    trackers = ChosenTrackers.of(composed[0].plain, parts)
    return RunRequest(
        experiment, Phase.TEST, parts.executor, root.budget, trackers, lean=root.compute.lean
    )


def _check_keys(name: str, overrides: Sequence[str]) -> list[str]:
    """The keys of the overrides.

    Raises:
        ConfigError: An override would change what is sealed.
    """
    if overrides and is_study_file(overrides[0]):
        raise ConfigError(
            f"{overrides[0]}: the study of {name} is sealed in the register: type "
            f"{shlex.join(protocol_command(name))}"
        )
    keys = [parsed.key_or_group for parsed in parse_overrides(overrides)]
    for word, key in zip(overrides, keys, strict=True):
        if key == "phase" or key.startswith(("seeds.tuning", "seeds.selection")):
            raise ConfigError(
                f"{word}: a protocol has test runs only, and the root of {name} is for no other seeds; "
                f"to try things out, run the study file: rlexp run study.yaml phase=tuning"
            )
        if key == "seeds.root":
            raise ConfigError(f"{word}: the root of {name} is derived from its registration")
        if CHANGEABLE.fullmatch(key) is None and key not in ATTEMPT_KEYS:
            raise ConfigError(
                f"{word}: the configurations of {name} are sealed; a command may give seeds.test, "
                "budget, failures, executor and tracker; other configurations need another experiment: "
                f"{shlex.join(['rlexp', 'run', word])}"
            )
    return keys


def refuse_registered(
    experiment: Experiment, paths: ExperimentPaths, workspace: Workspace
) -> None:
    """Refuse to begin an experiment with the name of a protocol, but with other seeds.

    Raises:
        RecordError: The name is registered.
    """
    if paths.definition.exists():
        return
    registration = read_protocols(workspace.layout).named(experiment.name)
    if registration is not None and registration.root != experiment.seeds.root:
        command = shlex.join(protocol_command(experiment.name, workspace.permission))
        raise RecordError(
            f"{experiment.name} is a registered protocol: to run it, type {command}; for other runs "
            "choose another name, with experiment=",
            command=command,
        )


def execution_words(overrides: Iterable[str]) -> list[str]:
    """The words of a study that say how its runs are executed, without those that define them."""
    kept = []
    for word in dict.fromkeys(overrides):
        key = split_override(word)[0]
        if key in ATTEMPT_KEYS or re.split(r"[./]", key)[0] in {"executor", "tracker"}:
            kept.append(word)
    return kept
