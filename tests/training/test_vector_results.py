"""Vectors in the results of a script: components become measures, fronts become hypervolumes."""

import json
from typing import Any

import pytest

from rlexp.protocol.budget import Budget
from rlexp.protocol.vector_scores import VectorScores
from rlexp.records.events import Evaluated
from rlexp.training.scripts.script_results import Results, ScriptFault

TEAM = VectorScores(return_of="team")
TREASURE = VectorScores(reference_point={"treasure": 0.0, "time": -10.0})


def final(declared: VectorScores, **values: Any) -> Evaluated:
    """The final evaluation of a line with two episodes."""
    budget = Budget(
        steps=100,
        evaluation_every=50,
        evaluation_episodes=1,
        evaluation_deterministic=True,
        final_episodes=2,
        score="final",
    )
    results = Results(budget, lambda: 7.0, vectors=declared)
    line = json.dumps({"step": 100, "final": True, **values})
    (event,) = results.read(line.encode())
    assert isinstance(event, Evaluated)
    return event


def test_the_declared_component_is_the_return_and_all_are_measures() -> None:
    """Of a team and two agents, the team's return is that of the run."""
    returns = {"team": [3, 4], "agent_0": [1, 2], "agent_1": [2, 2]}
    event = final(TEAM, returns=returns, measures={"success": [1, 0]})
    assert (3.0, 4.0) == event.returns
    assert {
        "return/team": (3.0, 4.0),
        "return/agent_0": (1.0, 2.0),
        "return/agent_1": (2.0, 2.0),
        "success": (1.0, 0.0),
    } == event.measures


def test_a_front_has_the_hypervolume_of_the_mean_returns_of_its_policies() -> None:
    """Above (0, −10), (2, −4) and (8, −9) dominate 2 × 6 + 6 × 1, and (1, −5) adds nothing."""
    front = [
        {"treasure": [1, 3], "time": [-4, -4]},
        {"time": [-9, -9], "treasure": [8, 8]},
        {"treasure": [1, 1], "time": [-5, -5]},
    ]
    measures = final(TREASURE, front=front).measures
    assert {
        "hypervolume": (18.0, 18.0),
        "policies": (2.0, 2.0),
        "best/treasure": (8.0, 8.0),
        "best/time": (-4.0, -4.0),
    } == measures


def test_a_front_below_the_reference_point_has_no_volume() -> None:
    """A policy that is not better than the point in each objective adds nothing."""
    event = final(TREASURE, front=[{"treasure": [5, 5], "time": [-10, -10]}])
    assert 0.0 == event.mean_of("hypervolume")


POLICY = {"treasure": [1, 1], "time": [-5, -5]}


@pytest.mark.parametrize(
    ("declared", "values", "message"),
    [
        (VectorScores(), {"returns": {"team": [1, 2]}}, "environment.return_of=NAME says which"),
        (TEAM, {"returns": {"agent_0": [1, 2]}}, r"team is none of them"),
        (TEAM, {"returns": [1, 2]}, "returns are a list"),
        (TEAM, {"returns": {"team": [1, 2], "a": [1]}}, "returns.a must be a list of 2 finite"),
        (TEAM, {"returns": {"team": [1, None]}}, "returns.team must be a list of 2 finite"),
        (
            TEAM,
            {"returns": {"team": [1, 2]}, "measures": {"return/team": [1, 2]}},
            "measures.return/team is a component of the vector",
        ),
        (VectorScores(), {"front": [POLICY]}, "a front needs a reference point"),
        (TREASURE, {"returns": [1, 2]}, "write front, not returns"),
        (TREASURE, {"front": [POLICY], "returns": [1, 2]}, "a front has no returns"),
        (TREASURE, {"front": []}, "front must be a list of 1 to 1,000 policies"),
        (
            TREASURE,
            {"front": [{"treasure": [1, 1]}]},
            "policy 0 of the front must have returns of",
        ),
        (TREASURE, {"front": [{**POLICY, "time": [1]}]}, "time must be a list of 2 finite"),
    ],
)
def test_vectors_that_are_not_as_declared_are_refused(
    declared: VectorScores, values: dict[str, Any], message: str
) -> None:
    """Each mistake of a script has one line that says what was expected."""
    with pytest.raises(ScriptFault, match=message):
        final(declared, **values)
