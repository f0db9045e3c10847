"""An experiment: its runs in their order, and the question that its name stands for."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from samples import REFERENCE, configuration, experiment

from rlexp.protocol.seeds import Phase, SeedPlan


def test_seeds_stand_outermost() -> None:
    """Runs are ordered by seed, so that an early end leaves comparable scores."""
    asked = experiment(configuration("ppo"), configuration("a2c"), test=(4, 2))
    found = [(c.label, s.seed) for c, s in asked.specs(Phase.TEST)]
    assert [("ppo", 4), ("a2c", 4), ("ppo", 2), ("a2c", 2)] == found


def test_runs_belong_to_their_phase_and_root() -> None:
    """A run knows the phase it is for and the root that keys its numbers."""
    specs = [spec for _, spec in experiment(root=9).specs(Phase.TUNING)]
    assert [(Phase.TUNING, 9, 0), (Phase.TUNING, 9, 1), (Phase.TUNING, 9, 2)] == [
        (spec.phase, spec.root, spec.seed) for spec in specs
    ]


def test_no_run_is_in_two_phases() -> None:
    """The same index in another phase is another run."""
    plan = SeedPlan(root=0, tuning=5, selection=5, test=5)
    asked = replace(experiment(), seeds=plan)
    ids = [spec.id for phase in Phase for _, spec in asked.specs(phase)]
    assert 15 == len(set(ids))


@given(st.integers(0, 20), st.integers(0, 20))
def test_more_seeds_are_the_same_question(few: int, more: int) -> None:
    """How many seeds are spent on a question may grow without changing it."""
    assert experiment(test=few).fingerprint == experiment(test=few + more).fingerprint


def test_what_else_changes_the_question() -> None:
    """Another root, way to count failures or configuration is another question."""
    ppo, a2c = configuration("ppo"), configuration("a2c")
    asked = [
        experiment(),
        experiment(root=1),
        experiment(failures="worst"),
        experiment(configuration(steps=99)),
        experiment(ppo, a2c),
    ]
    assert len(asked) == len({one.fingerprint for one in asked})


def test_order_and_labels_do_not_change_the_question() -> None:
    """The same configurations in another order, or under other labels, are the same runs."""
    ppo, a2c = configuration("ppo"), configuration("a2c")
    asked = [experiment(ppo, a2c), experiment(a2c, ppo), experiment(replace(ppo, label="x"), a2c)]
    assert 1 == len({one.fingerprint for one in asked})
    assert asked[0].definition() == asked[1].definition() == asked[2].definition()


def test_the_score_of_a_failure_is_part_of_the_question_where_it_counts() -> None:
    """Another minimum is another question only if failures count as the worst score."""
    lower = configuration(reference={**REFERENCE, "minimum": -7.0})
    assert experiment().fingerprint == experiment(lower).fingerprint
    worst = [experiment(failures="worst"), experiment(lower, failures="worst")]
    assert worst[0].fingerprint != worst[1].fingerprint


def test_known_scores_are_no_part_of_a_run() -> None:
    """A corrected reference changes what is said of the task, and keeps its runs."""
    corrected = configuration(reference={**REFERENCE, "threshold": 475.0})
    first, second = experiment(), experiment(corrected)
    assert first.fingerprint == second.fingerprint
    assert [s.id for _, s in first.specs(Phase.TEST)] == [
        s.id for _, s in second.specs(Phase.TEST)
    ]


def test_how_runs_are_executed_is_no_part_of_the_question() -> None:
    """Checkpoints and time limits may change between two commands."""
    other = experiment(configuration(checkpoint_every=3, timeout=9.0))
    assert experiment().definition() == other.definition()


def test_a_configuration_is_known_by_its_runs() -> None:
    """The fingerprint of a configuration is that of its runs, whatever their seeds."""
    asked = configuration()
    found = {asked.spec(phase, root, 3).fingerprint for phase in Phase for root in (0, 5)}
    assert {asked.fingerprint} == found


def test_an_allotted_configuration_is_asked_for_its_first_seeds_only() -> None:
    """The others get every test seed of the plan; other phases are not concerned."""
    whole = experiment(configuration("ppo"), configuration("a2c"), test=(4, 2, 7))
    first = whole.configurations[0]
    fewer = replace(whole, allotted={first.fingerprint: 1})
    asked = [(c.label, s.seed) for c, s in fewer.specs(Phase.TEST)]
    assert [("ppo", 4), ("a2c", 4), ("a2c", 2), ("a2c", 7)] == asked
    assert list(whole.specs(Phase.TUNING)) == list(fewer.specs(Phase.TUNING))
    assert whole.fingerprint == fewer.fingerprint
