"""Identity of plug-ins: the group, name and version that a class declares, and its settings.

The Python path of a class is not part of its identity: a class can be moved or renamed, and all
runs keep their names.
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
"""Key of a plug-in's mapping for the Python path of its class, which is never hashed."""
PLUG_IN = "plug_in"
"""Key of a plug-in's mapping for its group, name and version."""
HASHED = ("group", "name", "version")
"""Keys of `plug_in` that are part of the identity."""
LONGEST_NAME = 100
"""Largest number of letters of a plug-in's name in the name of a folder."""
# Python would write NaN, which is no JSON: other programs could not compute the identity.
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces. Equal values always give equal text."""
    return CANONICAL.encode(value)


def digest(value: Any) -> str:
    """The sha256 of the canonical JSON, in hexadecimal."""
    return sha256(canonical(value).encode()).hexdigest()


def without_null(part: Any) -> Any:
    """A mapping without the settings that are null.

    A setting that is added in a later version and is null by default changes no identity in this
    way. Null values inside a setting are kept, because they can have a meaning for the library.
    """
    if isinstance(part, Mapping):
        return {key: value for key, value in part.items() if value is not None}
    return part


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that a plug-in's class declares in its class variable `identity`.

    Attributes:
        group: The configuration group of the plug-in (`algorithm`).
        name: Its name within the group (`sac`); a prefix before a `/` names the owner.
        version: To be increased when the class changes its behaviour with equal settings.
        excluded: Settings that change no number of a run; all others are part of the identity.
    """

    group: str
    name: str
    version: int = 1
    excluded: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The identity as recorded in JSON files."""
        mapping = {"group": self.group, "name": self.name, "version": self.version}
        return {**mapping, "excluded": list(self.excluded)} if self.excluded else mapping


def plug_in_of(kind: type, group: str) -> dict[str, Any]:
    """The recorded identity of a plug-in's class: its declaration, or else its module path.

    An inherited declaration is ignored, so that a subclass with another behaviour does not have
    the identity of its base class.

    Args:
        kind: The class, a dataclass.
        group: The group from which it was chosen; used if the class declares no identity.

    Raises:
        ConfigError: The declaration excludes a setting that the class does not have.
    """
    # `vars`, not `getattr`: the latter would return the declaration of a base class.
    declared = vars(kind).get("identity")
    if not isinstance(declared, Identity):
        return named_by_path(group, kind.__module__, kind.__qualname__)
    settings = [field.name for field in fields(kind)]
    for name in declared.excluded:
        if name not in settings:
            raise ConfigError(
                f"{kind.__module__}.{kind.__qualname__}: identity excludes {name!r}, which is no "
                f"setting of the class (its settings: {', '.join(settings)})"
            )
    return declared.plain()


def short_name_of(kind: type, group: str) -> str:
    """The name of a plug-in's class in labels; see `short_name`."""
    return short_name({PLUG_IN: plug_in_of(kind, group)})


def named_by_path(group: str, module: str, name: str) -> dict[str, Any]:
    """The recorded identity of a class without a declaration; it changes if the class is moved."""
    return {"group": group, "name": f"{module}:{name}", "named_by": "module path"}


def named_part(kind: type, group: str, target: str, settings: Plain) -> dict[str, Any]:
    """A plug-in's mapping, as recorded in JSON files.

    Args:
        kind: The class of the plug-in.
        group: The group from which it was chosen.
        target: The Python path of the class, from which the plug-in is built again.
        settings: The value of every setting.

    Raises:
        ConfigError: A setting has the reserved name `plug_in`.
    """
    if PLUG_IN in settings:
        raise ConfigError(
            f"{target} has a setting '{PLUG_IN}', which is a reserved name: rename it"
        )
    return {PLUG_IN: plug_in_of(kind, group), TARGET: target, **settings}


def without_names(part: Plain) -> dict[str, Any]:
    """A plug-in's mapping without its identity, as the configuration needs it to build it."""
    return {key: value for key, value in part.items() if key != PLUG_IN}


def identifying(part: Any) -> Any:
    """The part of a plug-in's mapping that is hashed.

    A mapping without an identity comes from a run of another tool, and is hashed as it is.
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
    """The displayed name of a plug-in: its name, followed by its version if that is not 1."""
    if not isinstance(plug_in, Mapping):
        return "unknown"
    version = plug_in.get("version", 1)
    name = str(plug_in.get("name", "unknown"))
    return name if version == 1 else f"{name}, version {version}"


def short_name(part: Plain) -> str:
    """The plug-in's name in labels and in names of folders: `ppo`.

    Of a name with a prefix before a `/`, the last part is used; of a module path, the name of the
    module. A run of another tool has the name from that tool, and a training script the name in
    its settings. Characters other than ASCII letters, digits and `_` are replaced by `_`.
    """
    plug_in = part.get(PLUG_IN)
    if not isinstance(plug_in, Mapping) or "command" in part:
        name = str(part.get("name", "unknown"))
    else:
        module = str(plug_in.get("name", "unknown")).partition(":")[0]
        name = re.split(r"[./]", module)[-1]
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:LONGEST_NAME]
