"""The final evaluation of a saved policy, outside of the process that has trained it."""

import time
from contextlib import closing

from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.environments import Stage
from rlexp.environments.composed import splits
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Phase
from rlexp.records.events import Evaluated
from rlexp.training.evaluate import Evaluator, undisturbed
from rlexp.training.lean.learner import shortcuts_of
from rlexp.training.lean.registry import CLASSIC_CONTROL
from rlexp.training.parts import Training


def scored_stage(training: Training) -> Stage:
    """The stage at which scores are computed.

    Held-out distributions are for test runs only, so that they never influence a selection.
    """
    test = training.streams.phase is Phase.TEST
    held_out = test or not splits(training.environment)
    return Stage.EVALUATION if held_out else Stage.IN_DISTRIBUTION


def score_policy(training: Training, model: BaseAlgorithm) -> Evaluated:
    """Play the final evaluation of a run with its policy.

    The seeds are those of the run's final evaluation. Their number follows from the budget alone, and
    not from what the training says about its evaluations.

    Args:
        training: The parts of the run, built by trusted code.
        model: The learner with the parameters of the policy.
    """
    budget, streams, started = training.budget, training.streams, time.time()
    number = budget.steps // budget.evaluation_every if budget.evaluation_every else 0
    with undisturbed(model, streams.sampling(0)):
        evaluator = Evaluator(
            training.environment,
            EVALUATION_ENVIRONMENTS,
            stage=scored_stage(training),
            at_once=CLASSIC_CONTROL in training.shortcuts,
        )
    with closing(evaluator), shortcuts_of(model, training.shortcuts):
        episodes = evaluator.evaluate(
            model,
            seeds=[streams.evaluation(number, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(number),
            episodes=budget.final_episodes,
            deterministic=budget.evaluation_deterministic,
            beat=lambda: None,
        )
    return Evaluated(
        time=started,
        step=budget.steps,
        returns=tuple(episodes.returns),
        lengths=tuple(episodes.lengths),
        seconds=time.time() - started,
        final=True,
        measures=episodes.measures,
    )
