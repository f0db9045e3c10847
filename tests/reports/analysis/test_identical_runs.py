"""Labels whose runs are bit-identical, seed by seed."""

from dataclasses import replace

from evidence_samples import CARTPOLE, PENDULUM, inquiry, of_scores
from part_blocks import column, notices, part_of, table

from rlexp.records.events import Failure
from rlexp.records.run import State
from rlexp.reports.analysis.identical_runs import identical_labels
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.sections.pairs import PairwiseTestsSection
from rlexp.reports.sections.verdicts import VerdictsSection

SCORES = [410.0, 380.0, 450.0, 400.0]


def two_labels(first: list[float] = SCORES, second: list[float] = SCORES) -> Evidence:
    """Runs of two labels, whose final parameters have a digest for each score and seed."""
    sample = of_scores({("ppo", CARTPOLE): first, ("a2c", CARTPOLE): second})
    return replace(sample, members=tuple(map(with_weights, sample.members)))


def with_weights(member: PlannedRun) -> PlannedRun:
    """The run with a digest of its parameters that depends on its seed and score."""
    weights = f"{member.record.spec.seed} {member.score}"
    return replace(member, record=replace(member.record, weights=weights))


def changed(sample: Evidence, number: int, **fields: object) -> Evidence:
    """The evidence with other fields in the record of one run."""
    members = list(sample.members)
    record = replace(members[number].record, **fields)  # type: ignore[arg-type]
    members[number] = replace(members[number], record=record)
    return replace(sample, members=tuple(members))


def test_equal_parameters_of_every_seed_are_identical_runs() -> None:
    """Two labels are identical if their runs of each seed have equal parameters and scores."""
    identical = identical_labels(inquiry(two_labels()))
    assert [("ppo", "a2c")] == list(identical)
    assert 4 == identical["ppo", "a2c"].runs
    assert ["algorithm"] == sorted(
        {d.path.partition(".")[0] for d in identical["ppo", "a2c"].differences}
    )


def test_one_different_run_is_enough() -> None:
    """Another digest, another score, a failure or a missing digest makes labels different."""
    sample = two_labels()
    for fields in (
        {"weights": "other"},
        {"weights": None},
        {"state": State.FAILED, "failure": Failure.NAN, "weights": None},
    ):
        assert {} == identical_labels(inquiry(changed(sample, 2, **fields)))
    assert {} == identical_labels(inquiry(two_labels(second=[*SCORES[:3], 401.0])))


def test_runs_of_imported_scores_are_not_called_identical() -> None:
    """Equal scores without digests of parameters do not show that runs are identical."""
    sample = two_labels()
    for number in range(len(sample.members)):
        sample = changed(sample, number, weights=None)
    assert {} == identical_labels(inquiry(sample))


def test_seeds_of_one_label_alone_do_not_count() -> None:
    """Only seeds that both labels have are compared, and only tasks that both have."""
    identical = identical_labels(inquiry(two_labels(second=SCORES[:2])))
    assert 2 == identical["ppo", "a2c"].runs
    apart = of_scores({("ppo", CARTPOLE): SCORES, ("a2c", PENDULUM): SCORES})
    assert {} == identical_labels(inquiry(apart))


def test_a_verdict_names_identical_runs() -> None:
    """The verdict says that the runs are identical and what differs, and asks for no seeds."""
    ((tone, text),) = notices(part_of(VerdictsSection(), two_labels()))
    assert Tone.WARNING is tone
    assert text.startswith("ppo and a2c are identical: all 4 runs that both have")
    assert "Their settings differ in algorithm" in text
    assert "further seeds" not in text
    pairs = table(part_of(PairwiseTestsSection(), two_labels()), "pairs")
    assert ["identical runs"] == column(pairs, "verdict")
    different = part_of(PairwiseTestsSection(), two_labels(second=[1.0, *SCORES[1:]]))
    assert ["undecided"] == column(table(different, "pairs"), "verdict")


def test_many_labels_say_to_which_they_are_identical() -> None:
    """With many labels, the summary of a label lists those with identical runs."""
    names = [f"label-{number}" for number in range(7)]
    scores = {(n, CARTPOLE): [s + 50 * (n == "label-6") for s in SCORES] for n in names}
    sample = of_scores(scores)
    sample = replace(sample, members=tuple(map(with_weights, sample.members)))
    texts = [text for _, text in notices(part_of(VerdictsSection(), sample))]
    others = "label-1, label-2, label-3, label-4 and label-5"
    assert any(text.startswith(f"label-0: identical to {others};") for text in texts)
    assert any(text.startswith("label-6: undecided against") for text in texts)
