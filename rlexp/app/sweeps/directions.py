"""The check that a new sweep knows for each objective which direction is better."""

from collections.abc import Sequence

from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.measures import RETURN
from rlexp.protocol.sweep import LOWEST_SCORE, OBJECTIVES, RECORDED_OBJECTIVES


def check_directions(requested: Experiment, workspace: Workspace) -> None:
    """Refuse a new sweep with an objective of which it is not said which direction is better.

    That is a measure without a declaration beside other objectives, and the score that is minimised by the
    name of its objective. An older sweep goes on as it began.

    Raises:
        ConfigError: The direction is to be declared with the measure.
    """
    plan = None if requested.sweep is None else requested.sweep.plan
    if plan is None or workspace.layout.experiment(requested.name).definition.exists():
        return
    _check_declared(plan.objectives, requested.default)
    if LOWEST_SCORE not in plan.objectives:
        return
    budget = requested.default.budget
    declare, reach = "environment.measures.{}.direction=minimise", "sweep.objective={}"
    words = (
        f"report what is minimised as a measure and write {declare.format('NAME')} "
        f"{reach.format('NAME')}"
        if budget.quantity == RETURN
        else f"write {declare.format(budget.score)} {reach.format('score')}"
    )
    raise ConfigError(
        f"sweep.objective={LOWEST_SCORE} is of older versions: a direction is declared with a "
        f"measure, so that comparisons have it, too; {words}",
        code="unknown_value",
        key="sweep.objective",
        allowed=OBJECTIVES,
    )


def _check_declared(objectives: Sequence[str], default: Configuration) -> None:
    """Refuse several objectives of which one is an undeclared measure.

    Raises:
        ConfigError: Nothing says whether lower values of a measure are better.
    """
    for name in objectives if len(objectives) > 1 else ():
        if name not in RECORDED_OBJECTIVES and name not in default.measures:
            raise ConfigError(
                f"sweep.objective={name}: nothing says whether lower values are better, and a front needs "
                f"it: write 'environment.measures={{{name}: {{direction: minimise}}}}', or maximise",
                key="sweep.objective",
            )
