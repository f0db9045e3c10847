"""Missing and failed runs in a report."""

from dataclasses import replace

from evidence_samples import (
    CARTPOLE,
    all_failed,
    empty,
    incomplete,
    inquiry,
    not_finite,
    nothing_run,
    reordered,
    task_failed,
    task_missing,
    tuning_phase,
    typical,
    worst,
)
from part_blocks import column, notices, of_kind, part_of, table, texts

from rlexp.protocol.seeds import Phase
from rlexp.records.events import Continued, Refused
from rlexp.reports.drawing.blocks import Table, Tone
from rlexp.reports.sections.missing import MissingRunsSection


def test_complete_reports_have_one_notice() -> None:
    """A complete report has one good notice and no table."""
    part = part_of(MissingRunsSection(), typical())
    expected = "Every planned run has a score: 30 of 30."
    assert [(Tone.GOOD, expected)] == notices(part)
    assert [] == of_kind(part, Table)


def test_runs_without_a_score_are_listed() -> None:
    """Each row of a missing run has its state, reason and reached step."""
    missing_table = table(part_of(MissingRunsSection(), incomplete()), "missing")
    names = [m.name for m in incomplete().cells["a2c", CARTPOLE].members[:4]]
    assert names == column(missing_table, "run")
    assert ["failed (nan)", "interrupted", "planned", "unreadable"] == column(
        missing_table, "state"
    )
    damage = "its records are damaged: ValueError('no JSON')"
    assert ["reason of nan", None, None, damage] == column(missing_table, "reason")
    assert ([2000, 1000, 0, 0], [11_000] * 4) == (
        column(missing_table, "step"),
        column(missing_table, "of"),
    )


def test_the_summary_counts_by_state() -> None:
    """Some missing scores are counted in the text, and a report without any score has a problem."""
    states = "1 failed (nan), 1 interrupted, 1 planned, 1 unreadable"
    counted = f"Runs without a score: 4 of 30 ({states}). "
    assert texts(part_of(MissingRunsSection(), incomplete()))[0].startswith(counted)
    expected = (Tone.PROBLEM, "No run has a score: 6 of 6 (6 failed (nan)).")
    assert expected in notices(part_of(MissingRunsSection(), all_failed()))
    expected = (Tone.PROBLEM, "No run has a score: 6 of 6 (6 planned).")
    assert expected in notices(part_of(MissingRunsSection(), nothing_run()))


def test_what_the_failed_checks_say_has_no_second_box() -> None:
    """Where the failed checks count missing scores by label, no notice of the section repeats them."""
    repeated = [n for n in notices(part_of(MissingRunsSection(), incomplete())) if "score" in n[1]]
    assert [] == repeated


def test_scores_that_are_no_numbers_are_missing() -> None:
    """A completed run with a NaN score is listed with this state."""
    missing_table = table(part_of(MissingRunsSection(), not_finite()), "missing")
    assert ["completed without a finite score"] * 2 == column(missing_table, "state")


def test_bounds_are_listed_for_each_metric() -> None:
    """Each metric of a label with a missing score has bounds."""
    bounds_table = table(part_of(MissingRunsSection(), worst()), "bounds")
    assert ["a2c"] * 4 == column(bounds_table, "label")
    assert ["IQM", "median", "mean", "optimality gap"] == column(bounds_table, "metric")
    mean_bounds = [
        column(bounds_table, title)[2] for title in ("without these runs", "at least", "at most")
    ]
    assert [305.0, 611 / 3, 370.0] == mean_bounds


def test_the_note_below_bounds_speaks_only_of_metrics_in_the_table() -> None:
    """The note names the optimality gap only where the table shows it."""
    report = inquiry(worst())
    mean_alone = replace(report, metrics={"mean": report.metrics["mean"]})
    notes = []
    for shown in (report, mean_alone):
        part = MissingRunsSection().part(shown)
        assert part is not None
        notes.append("optimality gap" in (table(part, "bounds").note or ""))
    assert [True, False] == notes


def test_the_reason_of_a_missing_bound_stands_once_below_the_table() -> None:
    """A long reason takes no width from the numbers: the note has it, once for all rows."""
    bounds_table = table(part_of(MissingRunsSection(), task_failed()), "bounds")
    assert "at most" == bounds_table.columns[-1].title
    assert 1 == (bounds_table.note or "").count("declares no environment.reference.minimum")


def test_the_rule_for_failures_is_stated() -> None:
    """The text states how failed runs count, and the next command."""
    assert " A failed run has no score" in texts(part_of(MissingRunsSection(), incomplete()))[0]
    counted = "A failed run counts as the minimum score"
    assert counted in texts(part_of(MissingRunsSection(), worst()))[0]
    assert "--retry" in texts(part_of(MissingRunsSection(), worst()))[0]


def test_the_wrong_phase_is_a_problem() -> None:
    """The notice about the wrong phase precedes all other notices."""
    tone, text = notices(part_of(MissingRunsSection(), tuning_phase()))[0]
    assert Tone.PROBLEM is tone
    assert text.startswith("These are tuning runs, not test runs: ")


def test_runs_of_other_phases_are_counted() -> None:
    """A note counts the runs of other phases."""
    expected = "The same experiments also hold 4 tuning runs, which this report leaves out."
    assert (Tone.NOTE, expected) in notices(part_of(MissingRunsSection(), incomplete()))
    without_other_phases = replace(typical(), left_out={Phase.TUNING: 0})
    assert 1 == len(notices(part_of(MissingRunsSection(), without_other_phases)))


def test_a_task_without_planned_runs_is_named() -> None:
    """A label without planned runs on a task gives a warning."""
    expected = "dqn has no planned run on Pendulum-v1, so it has no aggregate."
    assert (Tone.WARNING, expected) in notices(part_of(MissingRunsSection(), task_missing()))


def test_unreadable_records_are_warned_of() -> None:
    """Each unreadable record gives a warning."""
    messages = notices(part_of(MissingRunsSection(), incomplete()))
    assert Tone.WARNING is messages[-1][0]
    assert messages[-1][1].endswith("its records are damaged: ValueError('no JSON')")


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no section on missing runs."""
    assert None is MissingRunsSection().part(inquiry(empty()))


def test_rows_are_in_order_of_label_task_and_seed() -> None:
    """The rows do not depend on the order of the runs."""
    assert part_of(MissingRunsSection(), incomplete()) == part_of(
        MissingRunsSection(), reordered(incomplete(), 5)
    )


def test_runs_of_several_attempts_are_listed() -> None:
    """Each row of a continued run has its steps of continuation, restarts and reasons."""
    first, second, *others = typical().members
    continued_record = replace(
        first.record,
        attempts=3,
        continuations=(
            Continued(time=1.0, step=40_000, attempt=1),
            Continued(time=2.0, step=60_000, attempt=1, drift="numpy was 1, is 2"),
        ),
    )
    restarted_record = replace(
        second.record,
        attempts=2,
        restarts=1,
        refused=(Refused(time=1.0, step=500, reason="model.npz is damaged"),),
    )
    members = (
        replace(first, record=continued_record),
        replace(second, record=restarted_record),
        *others,
    )
    part = part_of(MissingRunsSection(), replace(typical(), members=members))
    assert (Tone.GOOD, "Every planned run has a score: 30 of 30.") in notices(part)
    assert texts(part)[0].startswith(
        "1 run continued from a checkpoint and 1 run restarted. These runs count in full. "
    )
    rows = table(part, "continued").rows
    assert [first.name, second.name] == [row[0] for row in rows]
    assert (3, "40,000 and 60,000", 0, None) == rows[0][-4:]
    assert (2, None, 1, "step 500: model.npz is damaged") == rows[1][-4:]
    warning = (
        "1 run continued with other versions: numpy was 1, is 2. With unchanged "
        "versions, the numbers might be different."
    )
    assert (Tone.WARNING, warning) in notices(part)
