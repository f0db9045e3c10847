"""Checks which code the configurations on disk would import, and that the user has allowed it.

Overrides and files under `conf/` are the user's. Files under `runs/` may come from anybody: code
that they name is imported only if the user repeats its name with `--allow-import`.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rlexp.algorithms.external import SETTINGS, settings_named
from rlexp.environments.wrappers import module_of
from rlexp.errors import RecordError
from rlexp.protocol.identity import Plain, canonical

OWN_PACKAGE = "rlexp"
"""The package whose plug-ins any run may name."""
SCRIPTS = "external"
"""The name that allows commands of training scripts, used like the name of a package."""
GYMNASIUM = "gymnasium"
"""The package whose environments any run may use."""
FILES = "files under runs/"
"""What names code, unless it is said otherwise."""


class Parts(Protocol):
    """The plug-ins of a run or of a configuration, as settings."""

    @property
    def agent(self) -> Plain:
        """Settings with `_target_`."""
        ...

    @property
    def algorithm(self) -> Plain:
        """Settings with `_target_`."""
        ...

    @property
    def environment(self) -> Plain:
        """Settings with `_target_`."""
        ...

    @property
    def replay(self) -> Plain | None:
        """Settings with `_target_`; None for uniform replay."""
        ...

    @property
    def dataset(self) -> Plain | None:
        """Settings with `_target_`; None without recorded experience."""
        ...


def check_imports(
    on_disk: Iterable[Parts],
    allowed: Sequence[str],
    command: Sequence[str],
    trusted: Iterable[Parts] = (),
    chosen: Iterable[tuple[str, Any]] = (),
    origin: str = FILES,
) -> None:
    """Refuse to import code that only files under `runs/` name.

    Args:
        on_disk: Runs or configurations read from files, which are about to be built.
        allowed: Packages that the user has allowed.
        command: The command to repeat with more allowed packages.
        trusted: Configurations from overrides or `conf/`, whose modules may be imported.
        chosen: Settings of scripts, by key and value, that the user lets a search choose.
        origin: What names the code, for the message.

    Raises:
        RecordError: Names the packages, and the command that allows them.
    """
    on_disk, trusted = tuple(on_disk), tuple(trusted)
    # Compared by module, not by package: a trusted plug-in does not make its whole package trusted.
    named = {module for parts in on_disk for module in foreign_modules(parts)}
    trusted_modules = {module for parts in trusted for module in foreign_modules(parts)}
    packages = sorted(
        {m.partition(".")[0] for m in named - trusted_modules if not _is_in(m, allowed)}
    )
    if packages:
        flags = [word for package in packages for word in ("--allow-import", package)]
        raise RecordError(
            f"{origin} name code that would be executed: {', '.join(packages)}; "
            f"if you trust it: {shlex.join([*command, *flags])}",
        )
    _check_commands(on_disk, allowed, command, trusted, tuple(chosen), origin)


def permission_for(on_disk: Iterable[Parts], allowed: Sequence[str]) -> list[str]:
    """The options that allow all code that configurations on disk name, and what is allowed now.

    They are for a command that is shown to the user, who decides whether to give it.
    """
    on_disk = tuple(on_disk)
    packages = set(allowed)
    try:
        modules = {module for parts in on_disk for module in foreign_modules(parts)}
        packages |= {m.partition(".")[0] for m in modules if not _is_in(m, allowed)}
        packages |= {SCRIPTS for parts in on_disk if any(_commands(parts))}
    except RecordError:
        # The command itself reports the damage.
        pass
    return [word for package in sorted(packages) for word in ("--allow-import", package)]


def _check_commands(
    on_disk: Sequence[Parts],
    allowed: Sequence[str],
    command: Sequence[str],
    trusted: Sequence[Parts],
    chosen: Sequence[tuple[str, Any]],
    origin: str,
) -> None:
    """Refuse to start training scripts that only files under `runs/` name."""
    trusted_commands = {canonical(text) for parts in trusted for text in _commands(parts)}
    trusted_commands |= {canonical(list(setting)) for setting in chosen}
    named = {canonical(text) for parts in on_disk for text in _commands(parts)} - trusted_commands
    if named and SCRIPTS not in allowed:
        command_to_repeat = shlex.join([*command, "--allow-import", SCRIPTS])
        raise RecordError(
            f"{origin} name commands that would be executed: {', '.join(sorted(named))}; "
            f"if you trust them: {command_to_repeat}",
        )


def _commands(parts: Parts) -> Iterator[Any]:
    """Yield the command of a training script, and the texts that settings put into it."""
    if not isinstance(parts.algorithm, Mapping) or "command" not in parts.algorithm:
        return
    command, settings = parts.algorithm["command"], parts.algorithm.get("settings")
    yield command
    named = settings_named(str(command), settings) if isinstance(settings, Mapping) else {}
    for key, value in named.items():
        # A number cannot change what a command executes, whatever surrounds it.
        if not isinstance(value, int | float | None):
            yield [f"algorithm.{SETTINGS}{key}", value]
    # The name of the task becomes part of the command, so it can hold shell words too.
    if "{task}" in str(command):
        yield ["environment.name", parts.environment.get("name") or parts.environment.get("id")]


def foreign_modules(parts: Parts) -> set[str]:
    """Every module outside rlexp that building the plug-ins would import.

    Raises:
        RecordError: The settings of a plug-in are not a mapping.
    """
    # The types are checked here, because files from other people reach this code unvalidated.
    callbacks = getattr(parts, "callback", None) or {}
    optional = (callbacks, parts.replay or {}, parts.dataset or {})
    settings = (parts.agent, parts.algorithm, parts.environment, *optional)
    if not all(isinstance(part, Mapping) for part in settings):
        raise RecordError(
            "a configuration is damaged: the settings of a plug-in are not a mapping"
        )
    targets = {str(target) for part in settings for target in _targets(part)}
    environment = parts.environment
    # Gymnasium imports the part before the colon of an id such as `package.module:Name-v0`.
    module, colon, _ = str(environment.get("id")).partition(":")
    return {
        *(target for target in targets if not _is_in(target, (OWN_PACKAGE,))),
        *map(str, _listed(environment.get("imports"))),
        *_wrappers(environment),
        *_functions(environment),
        *([module] if colon else []),
        *_entry_point(str(environment.get("id"))),
    }


def _is_in(module: str, packages: Sequence[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _targets(settings: object) -> Iterator[Any]:
    """Yield every `_target_`, including those that nothing would instantiate."""
    if isinstance(settings, Mapping):
        if "_target_" in settings:
            yield settings["_target_"]
        for item in settings.values():
            yield from _targets(item)
    elif isinstance(settings, list | tuple):
        for item in settings:
            yield from _targets(item)


def _listed(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    return () if value is None else (value,)


def _wrappers(environment: Plain) -> Iterator[str]:
    for wrapper in _listed(environment.get("wrappers")):
        name = wrapper.get("name") if isinstance(wrapper, Mapping) else wrapper
        if module := module_of(str(name)):
            yield module


def _functions(environment: Plain) -> Iterator[str]:
    """The modules of functions that components name (`module:function`)."""
    components = environment.get("components")
    for component in components.values() if isinstance(components, Mapping) else ():
        if isinstance(component, Mapping) and isinstance(component.get("function"), str):
            yield component["function"].partition(":")[0]


def _entry_point(name: str) -> Iterator[str]:
    """The module of a registered environment that is not Gymnasium's own.

    An installed package may register environments whose arguments name further code.
    """
    import gymnasium

    spec = gymnasium.registry.get(name)
    if spec is None:
        return
    entry = spec.entry_point
    home = (
        entry.partition(":")[0]
        if isinstance(entry, str)
        else str(getattr(entry, "__module__", ""))
    )
    if not _is_in(home, (GYMNASIUM,)):
        yield home
