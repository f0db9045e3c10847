"""Starts training scripts once to check their settings, before anything is written (`algorithm.checks`)."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from rlexp.algorithms.external import External, leaves
from rlexp.app.execution.checks.compatibility import call_in_subprocess
from rlexp.app.execution.checks.trial_training import training_of
from rlexp.app.execution.scripts.external import script_of
from rlexp.app.execution.scripts.failure_lines import ERROR
from rlexp.app.execution.scripts.recipe_environments import FOLDER, GROUP
from rlexp.app.workspace import Workspace
from rlexp.config.option_lookup import read_option
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.executors import Executor, Remote
from rlexp.executors.local import Local
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import AttemptPaths
from rlexp.temporary_folders import scratch
from rlexp.trainer import CHECKS
from rlexp.training.scripts.script_check import Acceptance, ScriptAnswer, ask_script

LONGEST_CHECK = 300.0
"""Seconds after which a script counts as giving no answer; on a busy machine, imports take minutes."""
ENDING = 30.0
"""Further seconds in which a script that gives no answer is ended."""
SETTINGS = "algorithm.settings."
"""Beginning of the key of a setting of a script."""
KEY = re.compile(r"((?:algorithm|environment)\.[\w.]+)")
"""The key with which a line of `rlexp.trainer` begins."""
MISSING = re.compile(r"KeyError: ['\"]([\w.-]+)['\"]$")
"""The line of a script that read a setting which is not there."""
OF_THE_SCRIPT = re.compile(r"(Syntax|Indentation|Import|ModuleNotFound|Name|FileNotFound)Error\b")
"""Errors that are about the script itself, whatever its settings are."""
NO_RESERVE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Variables with which JAX does not take most of a device, which runs of other commands may use."""
WITHOUT = "algorithm.checks=false starts the runs without this check"


@dataclass(slots=True)
class ScriptChecks:
    """The checks of one command: each configuration is checked once, and a silent script is left alone.

    Attributes:
        workspace: The workspace, with the packages that may be imported.
        executor: What executes the runs; a check is made where the command is.
        note: Receives what the user waits for, and which checks gave no answer.
        limit: Seconds after which a script counts as giving no answer.
    """

    workspace: Workspace
    executor: Executor | Remote
    note: Callable[[str], None]
    limit: float = LONGEST_CHECK
    _checked: set[str] = field(default_factory=set)
    _silent: set[str] = field(default_factory=set)
    _announced: set[str] = field(default_factory=set)

    def check(self, configurations: Iterable[Configuration]) -> None:
        """Start the script of each configuration, and refuse settings that it refuses.

        Raises:
            ConfigError: A script refuses a setting, or ends before it trains.
        """
        for configuration in configurations:
            if self._is_here(configuration):
                self._check_once(configuration)

    def _is_here(self, configuration: Configuration) -> bool:
        """Whether this machine is one that can train: jobs may have devices that the command lacks."""
        return configuration.compute.device == "cpu" or not isinstance(self.executor, Remote)

    def _check_once(self, configuration: Configuration) -> None:
        algorithm, name = configuration.algorithm, configuration.algorithm["name"]
        script = canonical([algorithm["command"], algorithm["files"]])
        seen = (configuration.environment, configuration.dataset, configuration.budget.steps)
        key = canonical([script, algorithm["settings"], *seen, configuration.compute.device])
        if script in self._silent or key in self._checked:
            return
        if script not in self._announced:
            self._announced.add(script)
            self.note(f"Checks the settings of {name} with its script")
        self._checked.add(key)
        answer = self._answer(configuration)
        if answer.acceptance is Acceptance.SILENT:
            self._silent.add(script)
            self.note(
                f"The script of {name} gave no answer, because {answer.text}; its settings are not "
                "checked. algorithm.checks=false leaves the check out"
            )
        elif answer.acceptance is Acceptance.REFUSED:
            raise _refusal(configuration, answer.text, self._default_settings(configuration))

    def _answer(self, configuration: Configuration) -> ScriptAnswer:
        """The answer of the script; a check that this machine cannot make is none."""
        try:
            return self._ask(configuration)
        except (ConfigError, OSError) as error:
            return ScriptAnswer(Acceptance.SILENT, " ".join(str(error).split()))

    def _ask(self, configuration: Configuration) -> ScriptAnswer:
        """The answer of the script, which is started in a process apart with a seed of the tuning phase."""
        algorithm: External = build(configuration.algorithm, "algorithm", self.workspace.allowed)
        training = training_of(configuration, self.workspace)
        if configuration.dataset is not None:
            dataset = build(configuration.dataset, "dataset", self.workspace.allowed)
            training = replace(training, dataset=dataset)
        with scratch("rlexp-check-") as (folder, _):
            paths = AttemptPaths(folder / "1")
            paths.folder.mkdir()
            spec = configuration.spec(Phase.TUNING, 0, 0)
            script = script_of(spec, algorithm, training, paths)
            script = replace(
                script,
                variables={**script.variables, **self._devices(), **NO_RESERVE, CHECKS: "1"},
            )

            def ask() -> list[str]:
                with paths.log.open("w") as log:
                    # What the script prints belongs to its answer, and not to this command.
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
                answer = ask_script(script, self.limit)
                return [answer.acceptance, answer.text]

            what = f"the settings of {algorithm.name}"
            acceptance, text = call_in_subprocess(what, ask, limit=self.limit + ENDING)
        return ScriptAnswer(Acceptance(acceptance), text)

    def _devices(self) -> Mapping[str, str]:
        """The variables with a device of the executor, as its runs have them."""
        return self.executor.device_variables() if isinstance(self.executor, Local) else {}

    def _default_settings(self, configuration: Configuration) -> Mapping[str, Any]:
        """The settings in the file of a recipe; empty for a script that is none."""
        option = f"{FOLDER}{configuration.algorithm['name']}"
        defaults = read_option(GROUP, option, self.workspace.folder).get("settings") or {}
        return dict(leaves(defaults))


def _refusal(configuration: Configuration, line: str, defaults: Mapping[str, Any]) -> ConfigError:
    """One line that names the setting, and why the script refuses it."""
    if key := KEY.match(line):
        return ConfigError(line, key=key[1])
    settings, name = (
        dict(leaves(configuration.algorithm["settings"])),
        configuration.algorithm["name"],
    )
    if (missing := MISSING.search(line)) and missing[1] not in settings:
        return _lacking(missing[1], settings, defaults, line, name)
    named, changed = _suspects(configuration, line, defaults)
    if not named and _refuses_task(line, configuration.task):
        return ConfigError(
            f"the script of {name} cannot train on {configuration.task}: {line}", key="environment"
        )
    suspects = named or changed
    if not suspects:
        return ConfigError(f"the script of {name} ends before it trains: {line}; {WITHOUT}")
    shown = ", ".join(f"{SETTINGS}{key}={value}" for key, value in suspects.items())
    known = ", ".join(
        f"{key}={defaults[key]}"
        for key in suspects
        if key in defaults and _differs(suspects[key], defaults[key])
    )
    allowed = f" (the recipe has {known})" if known else ""
    return ConfigError(
        f"{shown}: {name} ends before it trains{allowed}: {line}; {WITHOUT}",
        key=f"{SETTINGS}{next(iter(suspects))}",
    )


def _differs(value: Any, default: Any) -> bool:
    """Whether a setting differs from that of the recipe's file, where 3e-4 is a text in plain yaml."""
    if value == default or "${" in str(default):
        return False
    with suppress(TypeError, ValueError):
        return float(value) != float(default)
    return True


def _lacking(
    missing: str, settings: Mapping[str, Any], defaults: Mapping[str, Any], line: str, name: str
) -> ConfigError:
    """The refusal of settings without one that the script reads."""
    foreign = [key for key in settings if key not in defaults]
    if near := get_close_matches(missing, foreign, n=1):
        return ConfigError(
            f"{SETTINGS}{near[0]}: the script asks for no such setting; did you mean '{missing}'?",
            key=f"{SETTINGS}{near[0]}",
        )
    return ConfigError(f"the script of {name} ends before it trains: {line}; {WITHOUT}")


def _refuses_task(line: str, task: str) -> bool:
    """Whether a script says itself, with the name of the task and not by an exception, what is wrong."""
    named = re.search(rf"(?<!\w){re.escape(task)}(?!\w)", line) is not None
    return named and not ERROR.match(line)


def _suspects(
    configuration: Configuration, line: str, defaults: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The settings that an error may be about: those whose name or text it has, and the changed ones of a recipe.

    Args:
        configuration: The configuration.
        line: The line of the error.
        defaults: The settings of the recipe; empty for a script that is none.
    """
    if OF_THE_SCRIPT.match(line):
        return {}, {}
    settings = dict(leaves(configuration.algorithm["settings"]))
    changed = {
        key: v for key, v in settings.items() if defaults and _differs(v, defaults.get(key))
    }
    # A value that the recipe has among its choices is no mistake, and `algorithm` is a word of many errors.
    choices = configuration.algorithm.get("choices") or {}
    open_settings = {key: v for key, v in settings.items() if f"{SETTINGS}{key}" not in choices}
    words = set(re.findall(r"\w+", line))
    named = {
        key: value
        for key, value in (changed or open_settings).items()
        if key.rpartition(".")[2] in words or (isinstance(value, str) and value in words)
    }
    return named, changed
