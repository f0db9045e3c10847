"""Shortcuts change no number: weights, journals and scores are those of the library's own code."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from in_full import IN_FULL, LOWEST_VERSIONS
from lean import ROWS, bare, ours, spec_of
from trainings import RecordingListener, run_training, without_times

from rlexp.app.execution.run_process import assemble
from rlexp.records.checkpoint import MODEL
from rlexp.records.events import Continued, Ending, Failure
from rlexp.training import network_changes
from rlexp.training.lean.learner import shortcuts_of

BUDGET = (
    "budget.steps=240",
    "budget.evaluation_every=80",
    "budget.evaluation_episodes=9",
    "budget.final_episodes=11",
)
SHORT = ("environment.max_episode_steps=25", "agent.network=[8]")
ON_POLICY = ("algorithm.n_steps=16", "environment.vector.count=2")
PPO = ("algorithm=ppo", *ON_POLICY, "algorithm.batch_size=16", "algorithm.n_epochs=2")
OFF_POLICY = (
    "algorithm.learning_starts=40",
    "algorithm.buffer_size=130",
    "algorithm.batch_size=16",
)
QUICK = {
    "ppo, categorical": (*PPO, "environment=cartpole"),
    "ppo, Gaussian, normalised": (
        *PPO,
        "environment=pendulum",
        "environment.vector.normalise_observations=true",
        "environment.vector.normalise_rewards=true",
    ),
    "a2c, ReLU": ("algorithm=a2c", "environment=acrobot", *ON_POLICY, "agent.activation=relu"),
    "dqn": ("algorithm=dqn", "environment=cartpole", *OFF_POLICY),
    "sac": ("algorithm=sac", "environment=pendulum", *OFF_POLICY),
}
"""One training for each class of policy and each distribution."""
OTHERS = {
    "ppo, mountain car, stacked frames": (
        *PPO,
        "environment=mountain_car",
        "environment.vector.frame_stack=3",
    ),
    "ppo, sampled evaluations": (*PPO, "budget.evaluation_deterministic=false"),
    "ppo, sampled Gaussian evaluations": (
        *PPO,
        "environment=pendulum",
        "budget.evaluation_deterministic=false",
    ),
    "ppo, clipped values, early stop": (
        *PPO,
        "algorithm.clip_range_vf=0.2",
        "algorithm.target_kl=0.001",
        "environment.vector.count=8",
        # Shorter rollouts, so that the training has several checkpoints.
        "algorithm.n_steps=8",
    ),
    "ppo, gSDE": (*PPO, "environment=pendulum", "algorithm.use_sde=true"),
    "ppo, component": (*PPO, "environment=cartpole", "component=observation_noise"),
    "ppo, in processes": (*PPO, "environment.vector.kind=subprocess"),
    "ppo, one environment": (*PPO, "environment.vector.count=1"),
    "ppo, mountain car with continuous actions": (*PPO, "environment=mountain_car_continuous"),
    "a2c, Gaussian": ("algorithm=a2c", "environment=pendulum", *ON_POLICY),
    "a2c, Adam": ("algorithm=a2c", "algorithm.use_rms_prop=false", *ON_POLICY),
    "trpo": ("algorithm=trpo", "algorithm.n_steps=64", "algorithm.batch_size=64"),
    "qrdqn": ("algorithm=qrdqn", *OFF_POLICY),
    "td3": ("algorithm=td3", "environment=pendulum", *OFF_POLICY),
    "ddpg, noise": (
        *("algorithm=ddpg", "environment=pendulum", *OFF_POLICY),
        "algorithm.action_noise={kind: ornstein_uhlenbeck, sigma: 0.3}",
    ),
    "tqc": ("algorithm=tqc", "environment=pendulum", *OFF_POLICY),
    "crossq": ("algorithm=crossq", "environment=pendulum", *OFF_POLICY),
    "sac, gSDE": ("algorithm=sac", "environment=pendulum", *OFF_POLICY, "algorithm.use_sde=true"),
    "sac, normalised, in twos": (
        *("algorithm=sac", "environment=pendulum", *OFF_POLICY),
        "environment.vector.count=2",
        "environment.vector.normalise_observations=true",
    ),
    "dqn, sampled evaluations": (
        *("algorithm=dqn", *OFF_POLICY),
        "budget.evaluation_deterministic=false",
    ),
    "recurrent ppo": (
        *("algorithm=recurrent_ppo", "agent=lstm", "agent.lstm_hidden_size=8"),
        *("algorithm.n_steps=64", "algorithm.batch_size=64", "algorithm.n_epochs=2"),
    ),
    "maskable ppo": (
        *("algorithm=maskable_ppo", "algorithm.n_steps=64", "environment=gymnasium"),
        "environment.id=odd_environments:Masked-v0",
    ),
    "ars": ("algorithm=ars", "agent=linear", "algorithm.n_delta=2", "algorithm.n_top=1"),
}
"""Further trainings: those without shortcuts of their own must stay as they are, too."""
CASES = {**QUICK, **(OTHERS if IN_FULL else {})}
SEEDS = (0, 1, 2) if IN_FULL else (0,)
EVERY = 60
"""Steps between checkpoints."""


def words_of(case: str) -> tuple[str, ...]:
    """The overrides of a short training."""
    words = {**QUICK, **OTHERS}[case]
    network = [] if any(word.startswith("agent=") for word in words) else [SHORT[1]]
    return (*BUDGET, SHORT[0], *network, *words)


def journal(listener: RecordingListener) -> list[object]:
    """The events without times."""
    return list(without_times(listener.events))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_weights_journals_and_scores_are_equal_with_and_without(
    case: str, seed: int, tmp_path: Path
) -> None:
    """A training with all shortcuts has the weights and the events of one without."""
    lean, lean_end = run_training(tmp_path / "lean", *words_of(case), seed=seed)
    plain, plain_end = run_training(tmp_path / "plain", *words_of(case), seed=seed, lean=False)
    assert plain_end.weights is not None, plain_end
    assert plain_end.weights == lean_end.weights
    assert journal(plain) == journal(lean)


SMALL = {"ppo_cartpole": 960, "a2c_cartpole": 240, "ppo_pendulum": 960, "dqn_cartpole": 300}
"""Environment steps of a comparison with the library alone: ten evaluations at equal steps."""


@pytest.mark.parametrize("name", ROWS if IN_FULL else SMALL)
def test_results_are_those_of_the_library_alone(name: str, tmp_path: Path) -> None:
    """A training with shortcuts has the weights and evaluations of stable-baselines3 alone."""
    row = replace(ROWS[name], steps=SMALL.get(name, 160), final_episodes=8)
    training = assemble(spec_of(row))
    # The lowest allowed versions are not proved, so that the library's code runs.
    assert LOWEST_VERSIONS is not bool(training.shortcuts)
    _, weights, means = bare(training)
    _, lean_weights, lean_means = ours(training, tmp_path)
    assert weights == lean_weights
    # The library rounds returns to six digits.
    assert pytest.approx(means, abs=1e-5) == lean_means


CONTINUED: tuple[str, ...] = ("ppo, categorical", "ppo, Gaussian, normalised", "sac")
if IN_FULL:
    # ARS has no rollouts between which it could be continued.
    CONTINUED = tuple(case for case in CASES if case != "ars")


@pytest.mark.parametrize("case", CONTINUED)
@pytest.mark.parametrize("first_is_lean", [True, False], ids=["lean first", "lean second"])
def test_a_checkpoint_continues_the_other_way(
    case: str, first_is_lean: bool, tmp_path: Path
) -> None:
    """A checkpoint taken with shortcuts continues without them, and the reverse, bit for bit."""
    words = words_of(case)
    control, end = run_training(
        tmp_path / "control", *words, lean=first_is_lean, checkpoint_every=EVERY
    )
    assert len(control.checkpoints) > 1
    for position in (0, len(control.checkpoints) - 1):
        saved = control.saved_checkpoint(position)
        listener, continued = run_training(
            tmp_path / str(position), *words, lean=not first_is_lean, checkpoints=[saved]
        )
        assert [saved.step] == [e.step for e in listener.events if isinstance(e, Continued)]
        assert end.weights == continued.weights
        last = [e for e in journal(control) if e["step"] > saved.step]  # type: ignore[index]
        assert last[-2:] == journal(listener)[-2:]


def test_checkpoints_hold_the_same_environments(tmp_path: Path) -> None:
    """Checkpoints have the same digests with shortcuts and without."""
    words = words_of("ppo, Gaussian, normalised")
    digests = []
    for lean in (True, False):
        folder = tmp_path / str(lean)
        listener, _ = run_training(folder, *words, lean=lean, checkpoint_every=EVERY)
        digests.append([checkpoint.digest for checkpoint in listener.checkpoints])
    assert len(digests[0]) > 1
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("name", "failure"),
    # A standard deviation of 0 is refused by the distribution, before anything is NaN.
    [("ppo, categorical", Failure.NAN), ("ppo, Gaussian, normalised", Failure.USER)],
)
def test_a_diverged_training_fails_alike(name: str, failure: Failure, tmp_path: Path) -> None:
    """A training that diverges has the same journal and reason with shortcuts and without."""
    words = (*words_of(name), "algorithm.learning_rate=1e30")
    lean, lean_end = run_training(tmp_path / "lean", *words)
    plain, plain_end = run_training(tmp_path / "plain", *words, lean=False)
    assert (Ending.FAILED, failure) == (plain_end.ending, plain_end.failure)
    assert journal(plain) == journal(lean)
    assert plain_end.reason == lean_end.reason


def test_saved_learners_hold_no_shortcut(tmp_path: Path) -> None:
    """The attributes that the library saves of a learner are the same with shortcuts and without."""
    saved = []
    for lean in (True, False):
        listener, _ = run_training(
            tmp_path / str(lean), *words_of("ppo, categorical"), lean=lean, checkpoint_every=EVERY
        )
        files = listener.saved_checkpoint(0).files
        with ZipFile(BytesIO(files[MODEL])) as archive:
            saved.append(json.loads(archive.read("data")))
    assert "train" not in saved[0]
    assert saved[0].keys() == saved[1].keys()


def test_shortcuts_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a training, its learner and optimiser have no attributes but their own."""
    kept: list[object] = []

    def watched(model: object, usable: frozenset[str]) -> object:
        kept.append(model)
        return shortcuts_of(model, usable)  # type: ignore[arg-type]

    monkeypatch.setattr(network_changes, "shortcuts_of", watched)
    for case in ("sac", "ppo, categorical"):
        _, end = run_training(tmp_path / case, *words_of(case))
        assert end.ending is Ending.COMPLETED
    model, ppo = kept
    assert not {"train", "_excluded_save_params"} & vars(ppo).keys()
    policy = model.policy  # type: ignore[attr-defined]
    parts = (policy, policy.actor, policy.actor.optimizer, policy.critic.optimizer)
    replaced = {"forward", "predict", "step", "set_training_mode", "action_log_prob"}
    assert not any(replaced & vars(part).keys() for part in parts)
