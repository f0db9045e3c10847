"""An experiment: the order of its runs, and the settings that identify it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from samples import REFERENCE, configuration, experiment

from rlexp.protocol.seeds import Phase, SeedPlan

RECORDED = (
    "b9e1cb2008dcb87ecce845ce7b8e2c532cb0380adf296d5f705231f6c0a27dc0",
    "b2177bc4265983e8bae0dd234dc9bab79edcf87b145437d2bade1f01b0d067ce",
)
"""Fingerprint and run id of the sample configuration, from before configurations had code."""


def test_runs_are_ordered_by_seed() -> None:
    """Runs are ordered by seed, so that an early end leaves comparable scores."""
    study = experiment(configuration("ppo"), configuration("a2c"), test=(4, 2))
    runs = [(c.label, s.seed) for c, s in study.specs(Phase.TEST)]
    assert [("ppo", 4), ("a2c", 4), ("ppo", 2), ("a2c", 2)] == runs


def test_runs_belong_to_their_phase_and_root() -> None:
    """A run has its phase, and the root that keys its random numbers."""
    specs = [spec for _, spec in experiment(root=9).specs(Phase.TUNING)]
    assert [(Phase.TUNING, 9, 0), (Phase.TUNING, 9, 1), (Phase.TUNING, 9, 2)] == [
        (spec.phase, spec.root, spec.seed) for spec in specs
    ]


def test_no_run_is_in_two_phases() -> None:
    """The same index in another phase is another run."""
    plan = SeedPlan(root=0, tuning=5, selection=5, test=5)
    study = replace(experiment(), seeds=plan)
    ids = [spec.id for phase in Phase for _, spec in study.specs(phase)]
    assert 15 == len(set(ids))


@given(st.integers(0, 20), st.integers(0, 20))
def test_more_seeds_are_the_same_question(count: int, increase: int) -> None:
    """More seeds do not change the fingerprint of an experiment."""
    assert experiment(test=count).fingerprint == experiment(test=count + increase).fingerprint


def test_other_settings_change_the_question() -> None:
    """Another root, rule for failures or configuration gives another fingerprint."""
    ppo, a2c = configuration("ppo"), configuration("a2c")
    experiments = [
        experiment(),
        experiment(root=1),
        experiment(failures="worst"),
        experiment(configuration(steps=99)),
        experiment(ppo, a2c),
    ]
    assert len(experiments) == len({study.fingerprint for study in experiments})


def test_order_and_labels_do_not_change_the_question() -> None:
    """The same configurations in another order, or under other labels, are the same runs."""
    ppo, a2c = configuration("ppo"), configuration("a2c")
    experiments = [
        experiment(ppo, a2c),
        experiment(a2c, ppo),
        experiment(replace(ppo, label="x"), a2c),
    ]
    assert 1 == len({study.fingerprint for study in experiments})
    assert (
        experiments[0].definition() == experiments[1].definition() == experiments[2].definition()
    )


def test_the_score_of_a_failure_is_part_of_the_question_where_it_counts() -> None:
    """Another minimum changes the fingerprint only if failures count as the worst score."""
    lower = configuration(reference={**REFERENCE, "minimum": -7.0})
    assert experiment().fingerprint == experiment(lower).fingerprint
    worst = [experiment(failures="worst"), experiment(lower, failures="worst")]
    assert worst[0].fingerprint != worst[1].fingerprint


def test_known_scores_are_no_part_of_a_run() -> None:
    """A corrected reference of a task changes neither the fingerprint nor the runs."""
    corrected = configuration(reference={**REFERENCE, "threshold": 475.0})
    first, second = experiment(), experiment(corrected)
    assert first.fingerprint == second.fingerprint
    assert [s.id for _, s in first.specs(Phase.TEST)] == [
        s.id for _, s in second.specs(Phase.TEST)
    ]


def test_how_runs_are_executed_is_no_part_of_the_question() -> None:
    """Checkpoints and time limits do not change the definition of an experiment."""
    changed = experiment(configuration(checkpoint_every=3, timeout=9.0))
    assert experiment().definition() == changed.definition()


def test_a_configuration_is_known_by_its_runs() -> None:
    """The fingerprint of a configuration is that of its runs, whatever their seeds."""
    ppo = configuration()
    fingerprints = {ppo.spec(phase, root, 3).fingerprint for phase in Phase for root in (0, 5)}
    assert {ppo.fingerprint} == fingerprints


def test_an_allotted_configuration_is_asked_for_its_first_seeds_only() -> None:
    """An allotted configuration has its first test seeds only, and all seeds of other phases."""
    study = experiment(configuration("ppo"), configuration("a2c"), test=(4, 2, 7))
    first = study.configurations[0]
    allotted = replace(study, allotted={first.fingerprint: 1})
    runs = [(c.label, s.seed) for c, s in allotted.specs(Phase.TEST)]
    assert [("ppo", 4), ("a2c", 4), ("a2c", 2), ("a2c", 7)] == runs
    assert list(study.specs(Phase.TUNING)) == list(allotted.specs(Phase.TUNING))
    assert study.fingerprint == allotted.fingerprint


def test_code_is_part_of_an_identity_only_where_there_is_some() -> None:
    """A configuration without code keeps the recorded identity of its runs; with code it has another one."""
    ordinary = configuration()
    run = ordinary.spec(Phase.TUNING, 0, 0)
    assert RECORDED == (ordinary.fingerprint, run.id)
    assert "code" not in ordinary.plain()
    coded = replace(ordinary, code="1" * 40)
    assert coded.fingerprint not in {ordinary.fingerprint, replace(coded, code="2").fingerprint}
    assert coded.plain() == {
        **ordinary.plain(),
        "fingerprint": coded.fingerprint,
        "code": "1" * 40,
    }
