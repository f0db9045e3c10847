"""Callbacks of stable-baselines3 as plug-ins: the arguments of their constructors are the settings.

A plug-in is a dataclass. A class of the library, or one that a user derives from it, is none, so that
one is made whose fields are the arguments of the constructor, with their types and defaults.
"""

import inspect
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from rlexp.errors import ConfigError

BASE = ("stable_baselines3.common.callbacks", "BaseCallback")
"""Module and name of the base class, which is compared by name so that no library is imported here."""
NAMED = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
JSON_TYPES = (bool, int, float, str, type(None), list, dict, tuple)
IDENTITY = "identity"
LENGTH = "depends_on_length"
"""Attribute of a class that says whether what it does depends on the length of training."""
STATE = ("state_dict", "load_state_dict")
"""Methods of a class whose state is part of checkpoints."""


def is_library_callback(kind: Any) -> bool:
    """Whether a class derives from the base class of the library's callbacks."""
    return isinstance(kind, type) and any(
        (base.__module__, base.__name__) == BASE for base in kind.__mro__
    )


@lru_cache(maxsize=64)
def as_plug_in(kind: type) -> type:
    """A frozen dataclass with the arguments of a callback's class; `begin` calls the class.

    Raises:
        ConfigError: The class is abstract.
    """
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))  # type: ignore[attr-defined]
        raise ConfigError(
            f"{kind.__module__}.{kind.__qualname__} is abstract: write its method {missing}"
        )
    hints = _hints(kind)
    parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    settings: list[Any] = [
        (parameter.name, hints.get(parameter.name, Any))
        if parameter.default is inspect.Parameter.empty
        else (parameter.name, hints.get(parameter.name, Any), _default(parameter.default))
        for parameter in list(parameters)[1:]
        if parameter.kind in NAMED
    ]

    def begin(self: Any) -> Any:
        """Return the callback of one training."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(self)})

    made = make_dataclass(
        kind.__name__, settings, namespace={"begin": begin}, frozen=True, kw_only=True
    )
    # Records, errors and identities name the class of the user, and not this one.
    made.__module__, made.__qualname__, made.__doc__ = (
        kind.__module__,
        kind.__qualname__,
        kind.__doc__,
    )
    # A declared identity is not inherited, as for every plug-in.
    if IDENTITY in vars(kind):
        made.identity = vars(kind)[IDENTITY]  # type: ignore[attr-defined]
    if hasattr(kind, LENGTH):
        setattr(made, LENGTH, getattr(kind, LENGTH))
    made.keeps_state = all(hasattr(kind, name) for name in STATE)  # type: ignore[attr-defined]
    return made


def _default(value: Any) -> Any:
    """The default of an argument; a list or mapping is made anew for each callback."""
    if isinstance(value, list | dict):
        return field(default_factory=value.copy)
    return field(default=value)


def _hints(kind: type) -> Mapping[str, Any]:
    """The types of the constructor's arguments that a configuration can give; others are not checked."""
    try:
        hints = get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
    except Exception:  # noqa: BLE001 (annotations of users may name what exists for type checkers only)
        return {}
    return {name: hint for name, hint in hints.items() if _is_of_json(hint)}


def _is_of_json(hint: Any) -> bool:
    """Whether every class in a type is one of JSON's."""
    if isinstance(hint, type) and not hasattr(hint, "__origin__"):
        return hint in JSON_TYPES
    inside = getattr(hint, "__args__", ())
    classes = [each for each in inside if isinstance(each, type) or hasattr(each, "__args__")]
    return bool(inside) and all(_is_of_json(each) for each in classes)
