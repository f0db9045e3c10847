"""A sweep that ends by `sweep.stop_at_regret` says so in its plan, its status and its report."""

from pathlib import Path

from command_line import rlexp
from stored_sweeps import WORDS, StoredSweep

from rlexp.app.workspace import Workspace
from rlexp.store.layout import Layout

STOPPING = (
    *(word for word in WORDS if not word.startswith(("sweep.trials", "sweep.promoted"))),
    *("sweep.trials=80", "sweep.promoted=0.05", "sweep.stop_at_regret=500"),
)


def test_the_end_of_the_search_is_shown_with_its_bound(tmp_path: Path) -> None:
    """Plan, status, JSON and report name the limit; the bound is one number everywhere."""
    plan = rlexp(tmp_path, "sweep", *STOPPING, "--dry-run").out
    assert "at most 80 trials, until more gain at most 500.00" in " ".join(plan.split())
    stored = StoredSweep(Workspace(tmp_path, Layout(tmp_path / "runs")), STOPPING)
    stored.go_on(runs=20)
    assert "stops at 500.00" in rlexp(tmp_path, "status", "made_up").out
    assert rlexp(tmp_path, "show", "made_up", "--json").content["sweep"]["regret_bound"] is None
    stored.go_on()
    document = rlexp(tmp_path, "show", "made_up", "--json").content["sweep"]
    # 32 trials and a lag of one trial.
    assert 33 == document["trials"]["ended"] == document["trials"]["planned"]
    bound = document["regret_bound"]
    assert 0 < bound <= 500
    shown = f"more trials gain at most {bound:.2f}, stops at 500.00"
    assert shown in " ".join(rlexp(tmp_path, "status", "made_up").out.split())
    rlexp(tmp_path, "report", "made_up", "--format", "md", "--output", str(tmp_path / "page"))
    page = (tmp_path / "page" / "report.md").read_text()
    row = (
        f"when more trials could gain at most 500.00, which was reached: the bound is {bound:.2f}"
    )
    assert row in page
