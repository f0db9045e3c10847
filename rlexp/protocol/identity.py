"""What identifies a plug-in: a group, a name and a version that its class declares, and settings.

The Python path of a class is no part of it. A class may be moved or renamed, and every run keeps its
name.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

from rlexp.errors import ConfigError

Plain = Mapping[str, Any]
"""A mapping of JSON values."""
TARGET = "_target_"
"""Key of a plug-in's mapping that holds the Python path of its class: it is never hashed."""
PLUG_IN = "plug_in"
"""Key of a plug-in's mapping that holds group, name and version."""
HASHED = ("group", "name", "version")
"""What of `plug_in` is part of an identity."""
LONGEST_NAME = 100
"""Letters of a plug-in's name in a folder's name."""
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON in one form only: keys sorted, no spaces."""
    return CANONICAL.encode(value)


def digest(value: Any) -> str:
    """The sha256 of the canonical JSON, in hexadecimal."""
    return sha256(canonical(value).encode()).hexdigest()


def without_null(part: Any) -> Any:
    """A mapping without the settings that are null.

    So a setting that is added later, and is null where it is not used, changes no identity.
    What stands inside a setting is the library's: there, null may well mean something.
    """
    if isinstance(part, Mapping):
        return {key: value for key, value in part.items() if value is not None}
    return part


@dataclass(frozen=True, slots=True)
class Identity:
    """What a plug-in's class declares of itself, as its class variable `identity`.

    Attributes:
        group: The group of the configuration that it belongs to (`algorithm`).
        name: Its name within the group (`sac`). Words before a `/` say whose it is.
        version: Counted up when the class does something else with the same settings.
        excluded: Settings that change no number of a run; all others are part of the identity.
    """

    group: str
    name: str
    version: int = 1
    excluded: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """What records say of it."""
        plain = {"group": self.group, "name": self.name, "version": self.version}
        return {**plain, "excluded": list(self.excluded)} if self.excluded else plain


def plug_in_of(kind: type, group: str) -> dict[str, Any]:
    """What records say of a plug-in's class: what it declares, or else its module path.

    A declaration that is inherited does not count: a class that does something else must not pass
    for its base class.

    Args:
        kind: The class, a dataclass.
        group: The group that it was chosen from; counts where the class declares nothing.

    Raises:
        ConfigError: The class excludes a setting that it does not have.
    """
    declared = vars(kind).get("identity")
    if not isinstance(declared, Identity):
        return named_by_path(group, kind.__module__, kind.__qualname__)
    settings = [field.name for field in fields(kind)]
    for name in declared.excluded:
        if name not in settings:
            raise ConfigError(
                f"{kind.__module__}.{kind.__qualname__}: identity excludes {name!r}, which is no "
                f"setting of the class (there are: {', '.join(settings)})"
            )
    return declared.plain()


def short_name_of(kind: type, group: str) -> str:
    """The name of a plug-in's class in labels; see `short_name`."""
    return short_name({PLUG_IN: plug_in_of(kind, group)})


def named_by_path(group: str, module: str, name: str) -> dict[str, Any]:
    """What records say of a class that declares no identity; moving it makes other runs."""
    return {"group": group, "name": f"{module}:{name}", "named_by": "module path"}


def named_part(kind: type, group: str, target: str, settings: Plain) -> dict[str, Any]:
    """A plug-in's mapping, as records hold it.

    Args:
        kind: Its class.
        group: The group that it was chosen from.
        target: The Python path of the class, from which it is built again.
        settings: The value of every setting.

    Raises:
        ConfigError: A setting has the name of a key that records need.
    """
    if PLUG_IN in settings:
        raise ConfigError(
            f"{target} has a setting '{PLUG_IN}', a name that records need: rename it"
        )
    return {PLUG_IN: plug_in_of(kind, group), TARGET: target, **settings}


def without_names(part: Plain) -> dict[str, Any]:
    """A plug-in's mapping as a configuration has it, to build the plug-in from."""
    return {key: value for key, value in part.items() if key != PLUG_IN}


def identifying(part: Any) -> Any:
    """What of a plug-in's mapping is part of an identity.

    A mapping that names no plug-in counts as it is: another tool made the run.
    """
    if not isinstance(part, Mapping):
        return part
    plug_in = part.get(PLUG_IN)
    if not isinstance(plug_in, Mapping):
        return without_null(part)
    left_out = {TARGET, PLUG_IN, *plug_in.get("excluded", ())}
    settings = {k: v for k, v in part.items() if v is not None and k not in left_out}
    return {PLUG_IN: {key: plug_in[key] for key in HASHED if key in plug_in}, **settings}


def full_name(plug_in: Any) -> str:
    """A plug-in as people read it: its name, with its version where that is not the first."""
    if not isinstance(plug_in, Mapping):
        return "unknown"
    version = plug_in.get("version", 1)
    name = str(plug_in.get("name", "unknown"))
    return name if version == 1 else f"{name}, version {version}"


def short_name(part: Plain) -> str:
    """The plug-in's name in labels and in names of folders: `ppo`.

    Only letters that are harmless there are kept. Of a name with words before a `/`, the last word
    counts; of a module path, the module's name. What another tool made has the name that it has
    there, and a training script that of its settings.
    """
    plug_in = part.get(PLUG_IN)
    if not isinstance(plug_in, Mapping) or "command" in part:
        name = str(part.get("name", "unknown"))
    else:
        module = str(plug_in.get("name", "unknown")).partition(":")[0]
        name = re.split(r"[./]", module)[-1]
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:LONGEST_NAME]
