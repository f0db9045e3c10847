"""From records on disk to what is still to be run: nothing that changes a number is asked anew."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from rlexp.app.imported import refuse_imported
from rlexp.app.mirrored import Trackers
from rlexp.app.older_schema import refuse_older
from rlexp.app.permission import check_imports
from rlexp.app.recorded import Recorded
from rlexp.app.request import Request
from rlexp.app.survey import Survey
from rlexp.app.sweep_request import Asked, read_sweep, split_definition
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build, build_named, validate_settings
from rlexp.config.words import OF_THE_ATTEMPT, parse_words, split_word
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Executor
from rlexp.protocol.budget import OPERATIONAL, Budget
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.secrets import MASK

OF_THE_MACHINE = ("executor", "tracker")
"""Groups that decide no number: where runs are executed, and what mirrors them."""
MIRROR = "sweep.storage"
"""Where a sweep is mirrored to: no number depends on it either."""


def check_words(words: Sequence[str], *more: str) -> list[str]:
    """The keys of words that may be given when runs go on.

    Args:
        words: In Hydra's grammar.
        more: Further keys that may be given.

    Raises:
        ConfigError: A word could change a number.
    """
    keys = [parsed.key_or_group for parsed in parse_words(words)]
    for word, key in zip(words, keys, strict=True):
        if not _changes_no_number(key) and key not in more:
            allowed = ", ".join(
                ("executor", "executor.…", "tracker", "tracker.…", *OF_THE_ATTEMPT, *more)
            )
            raise ConfigError(
                f"{word}: what is continued stays as it was asked for; 'rlexp resume' takes only "
                f"{allowed}; to ask for something else, use 'rlexp run' or 'rlexp sweep'"
            )
    return keys


def _changes_no_number(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key in OF_THE_ATTEMPT


def requests(
    found: Survey,
    recorded: Recorded,
    words: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
    only: RunSpec | None = None,
) -> Iterator[Request]:
    """What the records of an experiment ask for, a request for each phase that was begun.

    Args:
        found: The experiment.
        recorded: How it was driven last.
        words: About executor and checkpoints.
        workspace: Whose configuration says how runs are executed.
        command: What the user typed.
        only: The run that is wanted, where no other is.

    Raises:
        RlexpError: A word would change a number, or the records name code that is not allowed.
    """
    experiment = experiment_of(found)
    refuse_imported(experiment)
    refuse_older(experiment)
    check_imports(experiment.configurations, workspace.allowed, command)
    executor, budget, trackers = _driven(experiment, recorded, words, workspace)
    if only is not None:
        _check_asked(experiment, only)
    phases = found.phases or (Phase.TEST,)
    for phase in phases if only is None else (only.phase,):
        yield Request(experiment, phase, executor, budget, trackers, only.id if only else None)


def experiment_of(found: Survey) -> Experiment:
    """The question.

    Raises:
        RecordError: It cannot be read.
    """
    if found.experiment is None:
        raise RecordError(f"{found.problem}; 'rlexp ls {found.paths.name}' lists its runs")
    return found.experiment


def _check_asked(experiment: Experiment, only: RunSpec) -> None:
    if only.id not in {spec.id for _, spec in experiment.specs(only.phase)}:
        raise RecordError(
            f"the definition of experiment {experiment.name} does not ask for run {only.name}: "
            "repeat the command that does"
        )


def _driven(
    experiment: Experiment, recorded: Recorded, words: Sequence[str], workspace: Workspace
) -> tuple[Executor, Budget, Trackers]:
    """How runs are executed: by words, else as they were before, else by the configuration.

    Records never say where they are mirrored to: they may be foreign, and a key would go there.
    """
    given = check_words(words)
    plain = compose(words, workspace.folder)[0].plain
    executor: Executor = build(plain["executor"], "executor", workspace.allowed)
    mirrors = plain["tracker"]
    trackers = Trackers(build_named(mirrors, "tracker", workspace.allowed), mirrors)
    before = {
        key: recorded.settings[key]
        for key in OPERATIONAL
        if key in recorded.settings and f"budget.{key}" not in given
    }
    own = {key: plain["budget"].get(key) for key in OPERATIONAL}
    try:
        return executor, _budget(experiment, {**own, **before}), trackers
    except ConfigError:
        # What a damaged file says of the cadence of checkpoints is no reason not to go on.
        return executor, _budget(experiment, own), trackers


def _budget(experiment: Experiment, operational: dict[str, Any]) -> Budget:
    defining = experiment.default.budget.defining()
    return validate_settings(Budget, {**defining, **operational}, "budget.")


def asked_of_sweep(
    found: Survey,
    recorded: Recorded,
    words: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
) -> tuple[Asked, tuple[str, ...], list[str]]:
    """What the recorded command of a sweep asks for, with words about executor and checkpoints.

    Args:
        found: The sweep.
        recorded: How it was driven last.
        words: About executor, checkpoints and mirror.
        workspace: Where its definition is.
        command: What the user typed.

    Returns:
        The sweep, the command that asks for it, and recorded words that were left out: a record
        does not say how this machine is used.

    Raises:
        RlexpError: The command is not recorded whole, asks for something else by now, or the
            records name code that is not allowed.
    """
    experiment, name = experiment_of(found), found.paths.name
    refuse_older(experiment)
    given = check_words(words, MIRROR)
    check_imports(
        (*experiment.trials, *experiment.finalists, *experiment.configurations),
        workspace.allowed,
        command,
    )
    typed = _typed(recorded, name)
    definition, before = split_definition(typed)
    keys = [parsed.key_or_group for parsed in parse_words(before)]
    kept = [w for w, k in zip(before, keys, strict=True) if k not in given and not _of_machine(k)]
    left_out = [w for w, k in zip(before, keys, strict=True) if k not in given and _of_machine(k)]
    try:
        asked = read_sweep(definition, [*kept, *words], workspace)
    except ConfigError as error:
        there = f" (it was given in {recorded.folder})" if _moved(recorded, workspace) else ""
        told = shlex.join(["rlexp", "sweep", *typed])
        raise ConfigError(f"'{told}' can no longer be given{there}: {error}") from error
    if asked.experiment.name != name:
        raise RecordError(
            f"the command that {name} recorded leads to {asked.experiment.name}, not to it; "
            f"repeat the command with experiment={name}: "
            f"{shlex.join(['rlexp', 'sweep', *typed, f'experiment={name}'])}"
        )
    again = ("rlexp", "sweep", *([definition] if definition else []), *kept, *words)
    return asked, again, left_out


def _of_machine(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key == MIRROR


def _moved(recorded: Recorded, workspace: Workspace) -> bool:
    return bool(recorded.folder) and recorded.folder != str(workspace.folder)


def _typed(recorded: Recorded, name: str) -> tuple[str, ...]:
    """The words after `rlexp sweep`.

    Raises:
        RecordError: They are not recorded, or not whole.
    """
    if recorded.command[:2] != ("rlexp", "sweep"):
        raise RecordError(
            f"the command that asked for sweep {name} is not recorded, for no run of it was "
            f"started: repeat it ('rlexp sweep …')"
        )
    words = recorded.command[2:]
    if any(MASK in split_word(word)[1] for word in words):
        raise RecordError(
            f"the command that asked for sweep {name} holds a secret, which is not recorded: "
            f"repeat it with its value: {shlex.join(recorded.command)}"
        )
    return words
