"""MuJoCo's model, as far as contexts change it: entries by their names, and what follows from them."""

from typing import Any

import numpy as np

from rlexp.errors import ConfigError, did_you_mean

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
