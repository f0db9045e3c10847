"""Answers of the reproducibility checklist, and reports that `--strict` refuses."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from evidence_samples import (
    PROVENANCE,
    SAMPLES,
    all_failed,
    configured,
    empty,
    evidence,
    incomplete,
    inquiry,
    nothing_run,
    scored,
    task_missing,
    tuning_phase,
    typical,
    unequal_budgets,
)

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.checklist import ChecklistAnswer, ChecklistItem, failed_checks, items
from rlexp.reports.evidence.runs import Evidence


def item(number: int, sample: Evidence) -> ChecklistItem:
    """The item of the checklist with this number."""
    return items(inquiry(sample))[number - 1]


def with_provenance(**changes: Any) -> Evidence:
    """Runs of a label with changed provenance."""
    runs = scored(configured(), [1.0, 2.0])
    provenance: Mapping[str, Any] = {**PROVENANCE, **changes}
    return evidence(replace(m, provenance=provenance) for m in runs)


def test_there_are_seventeen_items_in_the_order_of_the_paper() -> None:
    """The checklist has the seventeen items of Appendix A of Eimer et al."""
    assert list(range(1, 18)) == [i.number for i in items(inquiry(typical()))]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_item_has_evidence(name: str) -> None:
    """Every item has a question and evidence, for every sample."""
    for entry in items(inquiry(SAMPLES[name]())):
        assert entry.question.endswith("?")
        assert entry.evidence.endswith(".")


def test_a_typical_report_passes() -> None:
    """`--strict` accepts a report with all planned runs."""
    assert () == failed_checks(inquiry(typical()))


def test_missing_runs_are_refused() -> None:
    """`--strict` names each label with the states of its missing runs."""
    messages = failed_checks(inquiry(incomplete()))
    states = "1 failed (nan), 1 interrupted, 1 planned, 1 unreadable"
    assert f"a2c: 4 of 10 runs have no score ({states})" == messages[0]
    assert messages[1].startswith("damaged records: sample: a2c-test-3-")
    assert 2 == len(messages)


def test_a_task_that_a_label_lacks_is_refused() -> None:
    """`--strict` names the label and the task without a planned run."""
    assert ("dqn has no planned run on Pendulum-v1",) == failed_checks(inquiry(task_missing()))


def test_the_wrong_phase_is_refused() -> None:
    """`--strict` refuses tuning runs, and items 11 and 12 answer no."""
    messages = failed_checks(inquiry(tuning_phase()))
    assert "these are tuning runs; a report needs test runs: --phase test" == messages[0]
    assert ["checklist item 11", "checklist item 12"] == [line[:17] for line in messages[1:]]


def test_an_experiment_without_runs_is_refused() -> None:
    """`--strict` refuses an empty experiment."""
    messages = failed_checks(inquiry(empty()))
    assert "no test run is planned" == messages[0]
    numbers = ("11", "12", "13")
    assert [f"checklist item {n}" for n in numbers] == [line[:17] for line in messages[1:]]


def test_failed_runs_are_refused() -> None:
    """`--strict` refuses a label whose runs all failed."""
    assert 2 == len(failed_checks(inquiry(all_failed())))


def test_test_seeds_are_listed() -> None:
    """Item 11 lists the number of test seeds and the seeds."""
    expected = (ChecklistAnswer.YES, "5 per label and task; root 0: 0–4.")
    assert expected == (item(11, typical()).answer, item(11, typical()).evidence)


def test_tuning_seeds_are_listed_where_there_was_tuning() -> None:
    """Item 10 lists tuning seeds only where tuning runs exist."""
    assert ChecklistAnswer.WORDS is item(10, typical()).answer
    tuned = replace(typical(), left_out={Phase.TUNING: 6})
    expected = (ChecklistAnswer.YES, "sample, root 0: 0–2 (3).")
    assert expected == (item(10, tuned).answer, item(10, tuned).evidence)


def test_unequal_budgets_are_a_no() -> None:
    """Item 7 answers no and lists the environment steps."""
    entry = item(7, unequal_budgets())
    expected = "On CartPole-v1, runs trained for 5,500 and 11,000 environment steps."
    assert (ChecklistAnswer.NO, expected) == (entry.answer, entry.evidence)


def test_code_needs_a_commit() -> None:
    """Item 14 answers no without a recorded commit."""
    code = {**PROVENANCE["code"], "commit": None}
    assert ChecklistAnswer.NO is item(14, with_provenance(code=code)).answer


def test_code_needs_a_remote() -> None:
    """Item 14 asks the author for a link if the recorded code has no remote."""
    assert ChecklistAnswer.WORDS is item(14, typical()).answer


def test_code_that_differs_from_its_commit_needs_words() -> None:
    """Item 14 asks the author to commit uncommitted changes."""
    code = {**PROVENANCE["code"], "remote": "https://example.org/study", "dirty": ["a.py"]}
    entry = item(14, with_provenance(code=code))
    assert (ChecklistAnswer.WORDS, True) == (entry.answer, "uncommitted changes" in entry.evidence)


def test_linked_code_is_a_yes() -> None:
    """Item 14 answers yes if commit and remote are recorded."""
    code = {**PROVENANCE["code"], "remote": "https://example.org/study"}
    entry = item(14, with_provenance(code=code))
    expected = (ChecklistAnswer.YES, "Commit aaaaaaaaaaaa of https://example.org/study.")
    assert expected == (entry.answer, entry.evidence)


@pytest.mark.parametrize(("number", "key"), [(16, "packages"), (17, "machine")])
def test_what_was_not_recorded_is_a_no(number: int, key: str) -> None:
    """Items 16 and 17 answer no if a run did not record software or hardware."""
    assert ChecklistAnswer.YES is item(number, typical()).answer
    assert ChecklistAnswer.NO is item(number, with_provenance(**{key: {}})).answer
    assert ChecklistAnswer.NO is item(number, nothing_run()).answer
