"""What Hydra composed, as JSON values."""

from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.budget import evaluation_interval

STEPS = "budget.steps"
EVALUATION_EVERY = "budget.evaluation_every"


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON values, resolved but for variables of the environment.

    A word in `budget.evaluation_every` becomes its number in `config` too. A copy of `config` that
    is given other steps later keeps this number.

    Raises:
        ConfigError: A value is missing, refers to nothing, or is an unknown word.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # A variable of the environment may be a secret: it is filled in where it is used, never stored.
    OmegaConf.register_new_resolver("oc.env", _keep, replace=True)
    try:
        _settle_evaluations(config)
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_missing(error)) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _settle_evaluations(config: Any) -> None:
    """Replace a word in `budget.evaluation_every` by the number of steps that it stands for."""
    from omegaconf import OmegaConf

    value = OmegaConf.select(config, EVALUATION_EVERY)
    if isinstance(value, str):
        interval = evaluation_interval(value, OmegaConf.select(config, STEPS))
        OmegaConf.update(config, EVALUATION_EVERY, interval)


def _keep(*words: str | None) -> str:
    return "${oc.env:" + ",".join("null" if word is None else str(word) for word in words) + "}"


def _missing(error: Exception) -> str:
    key = getattr(error, "full_key", None)
    first = str(error).splitlines()[0]
    if "Missing mandatory value" in first and key:
        return f"{key} has no value; give it one with {key}=…"
    return f"{key}: {first}" if key else first
