"""Where a context's parameters are in an environment: attributes, and arrays of MuJoCo's model."""

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError, EnvironmentFault, did_you_mean

_KINDS = {
    "body": ("body", "nbody"),
    "geom": ("geom", "ngeom"),
    "site": ("site", "nsite"),
    "jnt": ("joint", "njnt"),
    "dof": ("joint", "njnt"),
    "actuator": ("actuator", "nu"),
    "tendon": ("tendon", "ntendon"),
}
"""What names an entry of an array, and how many there are, by the first word of the array's name."""


def model_of(environment: Any) -> Any:
    """The model of an environment of MuJoCo; nothing for another."""
    model = getattr(environment, "model", None)
    return model if type(model).__module__.partition(".")[0] == "mujoco" else None


def entry_of(model: Any, array: str, name: str) -> int:
    """The row of an array that belongs to a body, a geom, a joint and so on.

    Raises:
        ConfigError: There is none of this name; says which there are.
    """
    if array.partition("_")[0] not in _KINDS:
        raise ConfigError(f"context field: the entries of {array} have no names, use numbers")
    kind, count = _KINDS[array.partition("_")[0]]
    known = [getattr(model, kind)(i).name for i in range(getattr(model, count))]
    if name not in known:
        named = [each for each in known if each]
        raise ConfigError(
            f"context field: MuJoCo's model has no {kind} {name!r}{did_you_mean(name, named)} "
            f"(there are: {', '.join(named) or 'none with a name'})"
        )
    row = known.index(name)
    return int(model.jnt_dofadr[row]) if array.startswith("dof_") else row


def names_of(model: Any) -> list[str]:
    """Every number and every array of numbers of a model."""
    places = {"model.": model, "model.opt.": model.opt}
    return [
        place + name
        for place, owner in places.items()
        for name in dir(owner)
        if not name.startswith("_") and _is_number(getattr(owner, name))
    ]


def follow_in(model: Any) -> None:
    """Compute again what the model was compiled with.

    That is the mass of subtrees, inverse inertias at joints and the like, with which contacts are
    solved (`mj_setConst`).
    """
    import mujoco

    mujoco.mj_setConst(model, mujoco.MjData(model))


def _is_number(held: Any) -> bool:
    return isinstance(held, float) or (isinstance(held, np.ndarray) and held.dtype.kind == "f")


_FIELD = re.compile(r"(?P<path>[A-Za-z]\w*(?:\.[A-Za-z]\w*)*)(?:\[(?P<index>[^\[\]]+)\])?")
_NOT_DYNAMICS = frozenset({"spec", "observation_space", "action_space", "metadata"})
_ABOVE_ZERO = re.compile(r".*(mass|length|inertia|moi|timestep).*|m|l|dt|tau", re.IGNORECASE)
_NOT_BELOW_ZERO = re.compile(
    r".*(friction|damping|armature|density|viscosity|power).*|force(_mag)?"
)
_LISTED = 16
"""Fields that an error lists at most."""
_COMPUTED = ("total_mass", "polemass_length")
"""What CartPole computes from its masses and its length."""

Index = tuple[int | slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One place of an environment that holds a number, or an array of them."""

    text: str
    """As the configuration names it: `length`, `model.body_mass[torso]`."""
    path: tuple[str, ...]
    index: Index
    nominal: NDArray[np.float64]
    """What it held at first; shape: that of the place."""

    def write(self, environment: Any, value: float, *, relative: bool) -> None:
        """Put a value there, or the nominal one times a factor."""
        filled = self.nominal * value if relative else np.full_like(self.nominal, value)
        owner = _owner(environment, self.path)
        held = getattr(owner, self.path[-1])
        if not self.index and not isinstance(held, np.ndarray):
            # A number of Python's, as environments have them: those of NumPy widen float32.
            setattr(owner, self.path[-1], float(filled))
            return
        # A copy, because an array may belong to all environments of a class.
        is_array = isinstance(held, np.ndarray)
        whole = held.copy() if is_array else np.array(list(held), dtype=np.float64)
        whole[self.index or ...] = filled
        setattr(owner, self.path[-1], whole if is_array else tuple(whole.tolist()))

    def check_kept(self, environment: Any, value: float, *, relative: bool) -> None:
        """Refuse an environment that has put another value there since.

        Raises:
            EnvironmentFault: Says so.
        """
        wanted = self.nominal * value if relative else np.full_like(self.nominal, value)
        if not np.allclose(_read(environment, self.path, self.index), wanted, rtol=1e-5):
            raise EnvironmentFault(
                f"the environment sets {self.text} itself at each reset, so that it cannot be a "
                "context parameter: name the field from which it is set"
            )


def find_field(environment: Any, text: str) -> Field:
    """Find the place that a text names.

    Args:
        environment: The bare environment, without wrappers.
        text: Names of attributes with dots between, and perhaps an index, of which names of
            MuJoCo's objects may be parts: `gravity`, `model.geom_friction[floor,0]`.

    Raises:
        ConfigError: There is no such place, or no number is there; says what there is.
    """
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"context field {text!r} is no field: write name, name.name or name[index]"
        )
    path = tuple(match["path"].split("."))
    try:
        _check_own(environment, path)
        held = _numbers(getattr(_owner(environment, path), path[-1]))
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(_unknown(environment, match["path"])) from error
    index = _index(environment, path[-1], match["index"])
    try:
        nominal = np.array(held[index or ...])
    except IndexError as error:
        raise ConfigError(
            f"context field {text!r}: {match['path']} has the shape {held.shape}"
        ) from error
    return Field(text, path, index, nominal)


def check_value(field: Field, value: float, *, relative: bool) -> None:
    """Refuse a value that the place cannot hold.

    Raises:
        ConfigError: A mass, length … would be below zero, or several numbers would become one.
    """
    if not relative and not field.index and field.nominal.size > 1:
        raise ConfigError(
            f"context field {field.text!r} is {field.nominal.size} numbers: say which of them in "
            "brackets ([:] for all), or set relative=true"
        )
    if relative and not field.nominal.any():
        raise ConfigError(
            f"context field {field.text!r} is 0: a factor changes nothing, set relative=false"
        )
    name, result = field.path[-1], field.nominal * value if relative else np.array(value)
    above = _ABOVE_ZERO.fullmatch(name) is not None
    if above and bool(((result == 0) & (field.nominal != 0)).any()):
        raise ConfigError(f"context field {field.text!r} must be above 0, not 0")
    if (above or _NOT_BELOW_ZERO.fullmatch(name)) and bool((result < 0).any()):
        raise ConfigError(
            f"context field {field.text!r} must not be below 0, and {result.min():g} is"
        )


def follow(environment: Any, fields: Iterable[Field]) -> None:
    """Let what the environment computed once, from its fields, follow their values.

    CartPole keeps sums and products of its masses and its length, MuJoCo's model even more.
    """
    if all(hasattr(environment, name) for name in _COMPUTED):
        environment.total_mass = environment.masspole + environment.masscart
        environment.polemass_length = environment.masspole * environment.length
    if any(field.path[0] == "model" for field in fields):
        follow_in(model_of(environment))


def _owner(environment: Any, path: Sequence[str]) -> Any:
    for name in path[:-1]:
        environment = getattr(environment, name)
    return environment


def _read(environment: Any, path: Sequence[str], index: Index) -> NDArray[np.float64]:
    held = _numbers(getattr(_owner(environment, path), path[-1]))
    return np.array(held[index or ...])


def _numbers(held: Any) -> NDArray[np.float64]:
    if isinstance(held, np.ndarray) and held.dtype.kind != "f":
        raise TypeError("no array of numbers")
    if isinstance(held, bool | str | bytes | dict):
        raise TypeError("no number")
    is_row = not isinstance(held, int | float | np.number | np.ndarray)
    return np.asarray(list(held) if is_row else held, dtype=np.float64)


def _check_own(environment: Any, path: Sequence[str]) -> None:
    """Refuse what other environments share, or what is no part of the dynamics."""
    if path[0] in {*_NOT_DYNAMICS, *_COMPUTED}:
        raise AttributeError(path[0])
    for name in path[:-1]:
        own = getattr(environment, "__dict__", None)
        if own is not None and name not in own:
            raise AttributeError(name)
        environment = getattr(environment, name)


def _index(environment: Any, name: str, text: str | None) -> Index:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    return tuple(_entry(environment, name, part) for part in parts)


def _entry(environment: Any, name: str, part: str) -> int | slice:
    if part == ":":
        return slice(None)
    if re.fullmatch(r"-?\d+", part):
        return int(part)
    model = model_of(environment)
    if model is None:
        raise ConfigError(f"context field: index {part!r} of {name} must be a number or ':'")
    return entry_of(model, name, part)


def _unknown(environment: Any, path: str) -> str:
    known = _known(environment)
    plain = [name for name in known if "." not in name]
    more = ", …" if len(plain) > _LISTED else ""
    listed = ", ".join(plain[:_LISTED]) + more
    if model_of(environment) is not None:
        listed += ", and arrays of its model such as model.body_mass, model.opt.gravity"
    return (
        f"context field {path!r} is no number of {type(environment).__name__}"
        f"{did_you_mean(path, known)} (there are: {listed.removeprefix(', ') or 'none'})"
    )


def _known(environment: Any) -> list[str]:
    """Numbers among the attributes, and arrays of MuJoCo's model."""
    names = [name for name in dir(environment) if not name.startswith("_")]
    # Statically: to ask some properties, as that of the generator, changes the environment.
    static = {name: inspect.getattr_static(environment, name, None) for name in names}
    found = [
        name
        for name, value in static.items()
        if isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and name not in _COMPUTED
    ]
    model = model_of(environment)
    return found if model is None else [*found, *names_of(model)]
