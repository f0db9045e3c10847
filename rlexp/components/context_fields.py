"""Fields of an environment that a context parameter sets: attributes and arrays of MuJoCo models.

`find_field` resolves the text of the configuration (`gravity`, `model.body_mass[torso]`) to a
`Field`, `Field.write` sets its value, and `update_derived_values` recomputes what the environment
has derived from it.
"""

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
    "xfrc": ("body", "nbody"),
    "geom": ("geom", "ngeom"),
    "site": ("site", "nsite"),
    "jnt": ("joint", "njnt"),
    "dof": ("joint", "njnt"),
    "actuator": ("actuator", "nu"),
    "tendon": ("tendon", "ntendon"),
}
"""Kind of MuJoCo object and attribute of its count, by the first part of the name of an array."""


def model_of(environment: Any) -> Any:
    """Return the model of a MuJoCo environment, or None for other environments."""
    model = getattr(environment, "model", None)
    return model if type(model).__module__.partition(".")[0] == "mujoco" else None


def entry_of(model: Any, array: str, name: str) -> int:
    """Return the row of an array for a body, geom, joint or other object by name.

    Raises:
        ConfigError: No object has this name; the message lists existing names.
    """
    if array.partition("_")[0] not in _KINDS:
        raise ConfigError(f"context field: the entries of {array} have no names, use numbers")
    kind, count = _KINDS[array.partition("_")[0]]
    names = [getattr(model, kind)(i).name for i in range(getattr(model, count))]
    if name not in names:
        non_empty = [each for each in names if each]
        raise ConfigError(
            f"context field: MuJoCo's model has no {kind} {name!r}{did_you_mean(name, non_empty)} "
            f"(there are: {', '.join(non_empty) or 'none with a name'})"
        )
    row = names.index(name)
    # A joint may have several degrees of freedom: `jnt_dofadr` holds the row of its first.
    return int(model.jnt_dofadr[row]) if array.startswith("dof_") else row


def names_of(model: Any) -> list[str]:
    """Return the paths of all floats and float arrays of a model."""
    owners = {"model.": model, "model.opt.": model.opt}
    return [
        prefix + name
        for prefix, owner in owners.items()
        for name in dir(owner)
        if not name.startswith("_") and _is_number(getattr(owner, name))
    ]


def recompile_constants(model: Any) -> None:
    """Recompute the constants that MuJoCo derives from the fields of a model (`mj_setConst`).

    Examples are masses of subtrees and inverse inertias at joints, which the contact solver uses.
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
_FORCES = ("data", "xfrc_applied")
"""Field of forces and torques on the bodies of a MuJoCo environment (bodies × 6)."""
_LISTED = 16
"""Largest number of fields that an error lists."""
_COMPUTED = ("total_mass", "polemass_length")
"""Attributes that CartPole computes from its masses and its length."""

Index = tuple[int | slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of an environment that holds a number or an array of numbers."""

    text: str
    """The field as the configuration names it: `length`, `model.body_mass[torso]`."""
    path: tuple[str, ...]
    index: Index
    nominal: NDArray[np.float64]
    """Value before any context was set; shape: that of the field."""

    @property
    def cleared_by_resets(self) -> bool:
        """Whether each reset sets the field to 0, so that it is written again after the reset.

        MuJoCo clears the applied forces, which are an input of its steps and no part of a state.
        """
        return self.path == _FORCES

    def write(self, environment: Any, value: float, *, relative: bool) -> None:
        """Set the field to a value, or to its nominal value times a factor."""
        filled = self.nominal * value if relative else np.full_like(self.nominal, value)
        owner = _owner(environment, self.path)
        held = getattr(owner, self.path[-1])
        if not self.index and not isinstance(held, np.ndarray):
            # A Python float, as environments have them: a NumPy float64 would turn float32
            # results into float64.
            setattr(owner, self.path[-1], float(filled))
            return
        # A copy, because environments of a class may share the array.
        is_array = isinstance(held, np.ndarray)
        whole = held.copy() if is_array else np.array(list(held), dtype=np.float64)
        whole[self.index or ...] = filled
        setattr(owner, self.path[-1], whole if is_array else tuple(whole.tolist()))

    def check_kept(self, environment: Any, value: float, *, relative: bool) -> None:
        """Refuse an environment that has changed the field at its reset.

        Raises:
            EnvironmentFault: The field holds another value.
        """
        expected = self.nominal * value if relative else np.full_like(self.nominal, value)
        if not np.allclose(_read(environment, self.path, self.index), expected, rtol=1e-5):
            raise EnvironmentFault(
                f"the environment sets {self.text} itself at each reset, so that it cannot be a "
                "context parameter: name the field from which it is set"
            )


def find_field(environment: Any, text: str) -> Field:
    """Return the field that a text names.

    Args:
        environment: The bare environment, without wrappers.
        text: Attribute names separated by dots, with an optional index of numbers, `:` and names
            of MuJoCo objects: `gravity`, `model.geom_friction[floor,0]`.

    Raises:
        ConfigError: The field does not exist or holds no number; the message lists fields.
    """
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"context field {text!r} is no field: write name, name.name or name[index]"
        )
    path = tuple(match["path"].split("."))
    try:
        _check_settable(environment, path)
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
    """Refuse a value that the field cannot hold.

    Raises:
        ConfigError: A mass, length or similar would be negative, or one absolute value would
            overwrite several numbers.
    """
    if not relative and not field.index and field.nominal.size > 1:
        raise ConfigError(
            f"context field {field.text!r} has {field.nominal.size} numbers: select some in "
            "brackets ([:] for all), or set relative=true"
        )
    if relative and not field.nominal.any():
        raise ConfigError(
            f"context field {field.text!r} is 0, which no factor changes: set relative=false"
        )
    name, result = field.path[-1], field.nominal * value if relative else np.array(value)
    above = _ABOVE_ZERO.fullmatch(name) is not None
    if above and bool(((result == 0) & (field.nominal != 0)).any()):
        raise ConfigError(f"context field {field.text!r} must be above 0, not 0")
    if (above or _NOT_BELOW_ZERO.fullmatch(name)) and bool((result < 0).any()):
        raise ConfigError(
            f"context field {field.text!r} must not be below 0, and {result.min():g} is"
        )


def update_derived_values(environment: Any, fields: Iterable[Field]) -> None:
    """Recompute the values that an environment derived from its fields when it was created.

    CartPole stores sums and products of its masses and length; MuJoCo models store many more.
    """
    if all(hasattr(environment, name) for name in _COMPUTED):
        environment.total_mass = environment.masspole + environment.masscart
        environment.polemass_length = environment.masspole * environment.length
    if any(field.path[0] == "model" for field in fields):
        recompile_constants(model_of(environment))


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


def _check_settable(environment: Any, path: Sequence[str]) -> None:
    """Refuse fields that other environments share or that are not part of the dynamics."""
    if path[0] in {*_NOT_DYNAMICS, *_COMPUTED}:
        raise AttributeError(path[0])
    for name in path[:-1]:
        # An object in the class, not in the instance, is shared by all environments.
        attributes = getattr(environment, "__dict__", None)
        if attributes is not None and name not in attributes:
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
    fields = _candidate_fields(environment)
    attributes = [name for name in fields if "." not in name]
    more = ", …" if len(attributes) > _LISTED else ""
    listed = ", ".join(attributes[:_LISTED]) + more
    if model_of(environment) is not None:
        listed += (
            ", and arrays of MuJoCo such as model.body_mass, model.opt.gravity, data.xfrc_applied"
        )
    return (
        f"context field {path!r} is no number of {type(environment).__name__}"
        f"{did_you_mean(path, fields)} (there are: {listed.removeprefix(', ') or 'none'})"
    )


def _candidate_fields(environment: Any) -> list[str]:
    """Return the numeric attributes of an environment and the arrays of its MuJoCo model."""
    names = [name for name in dir(environment) if not name.startswith("_")]
    # `getattr_static`, because reading a property such as `np_random` changes the environment.
    static = {name: inspect.getattr_static(environment, name, None) for name in names}
    numbers = [
        name
        for name, value in static.items()
        if isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and name not in _COMPUTED
    ]
    model = model_of(environment)
    return numbers if model is None else [*numbers, *names_of(model)]
