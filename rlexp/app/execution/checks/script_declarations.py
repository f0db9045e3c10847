"""Checks of what training scripts have alone: units of their own, vectors of returns and fronts of policies."""

from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import SCORE_RULES
from rlexp.protocol.units import UNIT, unit_text
from rlexp.protocol.vector_scores import HYPERVOLUME, REFERENCE_POINT, RETURN_OF, VectorScores

DECLARATIONS = {
    UNIT: "counts its steps in another unit than environment steps",
    RETURN_OF: "reports returns of several components",
    REFERENCE_POINT: "reports a front of policies",
}
"""What a setting of the environment says about a training script."""


def refuse_declarations(configuration: Configuration) -> None:
    """Refuse what only a training script can do, for an algorithm that rlexp executes.

    Raises:
        ConfigError: Names the setting.
    """
    for name, what in DECLARATIONS.items():
        if (value := configuration.environment.get(name)) is not None:
            raise ConfigError(
                f"environment.{name}={value}: only a training script {what}: leave it out, or choose "
                "algorithm=external or a recipe (rlexp recipe lists them)",
                key=f"environment.{name}",
            )


def check_declarations(configuration: Configuration) -> None:
    """Refuse another unit than that of a recipe, and a score that a front of policies does not have.

    Raises:
        ConfigError: The unit is another one; or the score is a rule about returns, or no measure of the front.
    """
    _check_unit(configuration)
    declared, score = VectorScores.of(configuration.environment), configuration.budget.score
    if declared.reference_point is None or score not in SCORE_RULES:
        return
    raise ConfigError(
        f"budget.score={score} is a rule about returns, and a front of policies "
        f"(environment.{REFERENCE_POINT}) has none: budget.score={HYPERVOLUME}",
        key="budget.score",
    )


def _check_unit(configuration: Configuration) -> None:
    """Refuse another unit than the one in which a recipe counts, which every table would name wrongly."""
    unit = configuration.algorithm.get(UNIT)
    if unit is not None and configuration.unit != unit:
        raise ConfigError(
            f"algorithm={configuration.algorithm['name']} counts {unit_text(unit)}, and budgets are in "
            f"{unit_text(configuration.unit)}: add environment.{UNIT}={unit}",
            key=f"environment.{UNIT}",
        )
