"""`rlexp report` writes its files and prints verdicts, warnings and next commands."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json
from quick_parts import quick_parts
from stored_runs import Stored, configuration, failed, stored, study

from rlexp.app.commands.judge.report import ReportFiles, ReportRequest, report
from rlexp.app.reporting.build import FORMATS, read_formats, read_phase
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.seeds import Phase

quick = pytest.fixture(autouse=True)(quick_parts)

QUICK = ("repetitions=200", "curve_repetitions=100")
FEW = (*QUICK, "section=[verdicts,checklist,missing]")
"""Settings for tests that need only a few sections."""
COMPARE = "rlexp compare alpha --set repetitions=200 --set curve_repetitions=100"
"""The comparison in the terminal keeps the settings of the report that it knows."""


def alpha(folder: Path) -> Stored:
    """Two labels with four scores each."""
    experiment = stored(
        study(folder).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(4):
        experiment.complete(seed, 400.0 + seed)
        experiment.complete(seed, 100.0 + seed, label="a2c")
    return experiment


def write(folder: Path, *targets: str, **options: Any) -> ReportFiles:
    """Write a report with few resamples; `settings` may select fewer sections."""
    overrides = (*options.pop("settings", QUICK), *options.pop("overrides", ()))
    request = ReportRequest(targets=targets or ("alpha",), overrides=overrides, **options)
    return report(request, study(folder))


def command_output(folder: Path, *words: str, code: int = 0) -> str:
    """The output of the command for a report with few sections."""
    return give(folder, "report", "alpha", *settings(FEW), *words, code=code)


def settings(overrides: Sequence[str]) -> list[str]:
    """Overrides as options of the command."""
    return [word for override in overrides for word in ("--set", override)]


def files(folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_page_is_written_beside_the_runs(tmp_path: Path) -> None:
    """By default, the page is in a folder of `reports/` with the name of the experiment."""
    alpha(tmp_path)
    report_files = write(tmp_path, settings=FEW)
    assert (tmp_path / "reports" / "alpha" / "report.html",) == report_files.files
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha"))


def test_several_experiments_share_a_report(tmp_path: Path) -> None:
    """The folder of a report on two experiments has both names."""
    alpha(tmp_path)
    stored(study(tmp_path).layout, "beta", configuration("dqn"))
    write(tmp_path, "alpha", "beta", settings=FEW)
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha+beta"))


def test_every_format_writes_its_files(tmp_path: Path) -> None:
    """Each format writes its files."""
    alpha(tmp_path)
    write(tmp_path, formats=(",".join(FORMATS),), output=str(tmp_path / "out"))
    written_files = files(tmp_path / "out")
    expected = {f"report.{kind}" for kind in ("html", "json", "md", "tex")} | {"aggregates.csv"}
    assert expected <= written_files.keys()


def test_figures_for_print_are_written_to_their_folder(tmp_path: Path) -> None:
    """With a folder for figures, every figure is written there as PDF and SVG."""
    alpha(tmp_path)
    overrides = ("section=[aggregates]",)
    write(tmp_path, overrides=overrides, output=str(tmp_path / "out"), figures=str(tmp_path / "f"))
    written_files = files(tmp_path / "f")
    assert {".pdf", ".svg"} == {Path(name).suffix for name in written_files}
    assert all(written_files.values())


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    """The bytes of a report do not depend on its folder."""
    alpha(tmp_path)
    for name in ("first", "second"):
        write(tmp_path, formats=FORMATS, output=str(tmp_path / name))
    assert files(tmp_path / "first") == files(tmp_path / "second")


def test_settings_can_be_changed_for_one_report(tmp_path: Path) -> None:
    """Settings in `--set` change the files and the numbers of a report."""
    alpha(tmp_path)
    arguments = ("interval=percentile", "section=[aggregates]", "metric=[mean]")
    write(tmp_path, overrides=arguments, formats=("csv",), output=str(tmp_path / "out"))
    assert {"aggregates.csv", "aggregates-figure.csv"} == files(tmp_path / "out").keys()
    assert b"percentile" in files(tmp_path / "out")["aggregates.csv"]


def test_a_workspace_can_have_settings(tmp_path: Path) -> None:
    """`conf/report.yaml` of the workspace replaces the packaged one."""
    alpha(tmp_path)
    (tmp_path / "conf").mkdir()
    packaged = (Path(__file__).parents[3] / "conf" / "report.yaml").read_text()
    with_one_section = "\n".join(
        "  - section: [aggregates]" if "- section:" in line else line
        for line in packaged.splitlines()
    )
    (tmp_path / "conf" / "report.yaml").write_text(
        with_one_section.replace("interval: t ", "interval: bca ")
    )
    write(tmp_path, formats=("csv",), output=str(tmp_path / "out"))
    assert {"aggregates.csv", "aggregates-figure.csv", "anchors.csv"} >= (
        files(tmp_path / "out").keys()
    )
    assert b"BCa" in files(tmp_path / "out")["aggregates.csv"]


def test_a_workspace_can_have_a_section(tmp_path: Path) -> None:
    """A class and a YAML file of a workspace add a section."""
    alpha(tmp_path)
    (tmp_path / "conf" / "section").mkdir(parents=True)
    option = "# Mine.\nmine:\n  _target_: my_section.Mine\n  word: hello\n"
    (tmp_path / "conf" / "section" / "mine.yaml").write_text(option)
    (tmp_path / "my_section.py").write_text(
        "from dataclasses import dataclass\n"
        "from rlexp.reports.drawing.blocks import SectionContent, Text\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    word: str\n"
        "    def part(self, inquiry):\n"
        "        return SectionContent(name='mine', title='Mine', blocks=(Text(text=self.word),))\n"
    )
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "rlexp",
            "report",
            "alpha",
            "--set",
            "section=[mine]",
            "--allow-import",
            "my_section",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (process.returncode, process.stderr)
    assert b"hello" in files(tmp_path / "reports")["alpha/report.html"]


def test_verdicts_and_files_are_printed(tmp_path: Path) -> None:
    """The command prints the verdict, the file and the next command."""
    alpha(tmp_path)
    text = command_output(tmp_path)
    assert text.startswith("ppo is better than a2c by 300.0 [297.0, 303.0] with 4 seeds\n")
    assert f"Wrote {tmp_path / 'reports' / 'alpha' / 'report.html'}\n" in text
    assert text.endswith(f"To compare in the terminal: {COMPARE}\n")


def test_json_has_files_and_notices(tmp_path: Path) -> None:
    """The JSON document has files, notices, checks and the next command."""
    alpha(tmp_path)
    result = give_json(tmp_path, "report-files", "report", "alpha", *settings(FEW))
    assert [str(tmp_path / "reports" / "alpha" / "report.html")] == result["files"]
    assert (False, ["ppo", "a2c"], []) == (
        result["unchanged"],
        result["labels"],
        result["failed_checks"],
    )
    assert ("notice", "good") == (result["notices"][0]["kind"], result["notices"][0]["tone"])
    assert [COMPARE] == [step["command"] for step in result["next"]]


def test_one_label_suggests_no_comparison(tmp_path: Path) -> None:
    """The report of a single label suggests no comparison, which would be refused."""
    stored(study(tmp_path).layout).complete(0, 1.0)
    assert () == write(tmp_path, settings=FEW).next


def test_many_files_are_not_named_one_by_one(tmp_path: Path) -> None:
    """The command names ten files and the number of further files."""
    alpha(tmp_path)
    text = give(tmp_path, "report", "alpha", *settings(QUICK), "--format", "csv")
    count = len(files(tmp_path / "reports" / "alpha"))
    assert count > 10
    assert f"Wrote {count - 10} further files" in text


@pytest.mark.parametrize(("strict", "code"), [(True, 3), (False, 0)])
def test_strict_refuses_missing_data(tmp_path: Path, strict: bool, code: int) -> None:
    """With --strict, missing data gives exit code 3, and the report is written."""
    experiment = stored(study(tmp_path).layout)
    experiment.complete(0, 1.0)
    experiment.attempt(1, failed())
    command_output(tmp_path, *(["--strict"] if strict else []), code=code)
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha"))


def test_strict_accepts_complete_data(tmp_path: Path) -> None:
    """With --strict, complete data gives exit code 0."""
    alpha(tmp_path)
    command_output(tmp_path, "--strict")


def test_strict_refuses_another_phase(tmp_path: Path) -> None:
    """With --strict, a report of tuning runs has a warning and exit code 3."""
    experiment = stored(study(tmp_path).layout)
    for seed in range(2):
        experiment.complete(seed, 1.0, phase=Phase.TUNING)
    assert "These are tuning runs, not test runs" in command_output(tmp_path, "--strict", code=3)


@pytest.mark.parametrize("runs", ["none", "failed", "one", "constant", "nan"])
def test_bad_input_gives_a_report_with_a_warning(tmp_path: Path, runs: str) -> None:
    """Unusable records give a report with a warning instead of a traceback."""
    experiment = stored(
        study(tmp_path).layout, "alpha", configuration("ppo"), configuration("a2c")
    )
    for label in ("ppo", "a2c"):
        for seed in range(3):
            if runs == "failed":
                experiment.attempt(seed, failed(), label=label)
            elif runs in {"constant", "nan"}:
                experiment.complete(seed, 1.0 if runs == "constant" else float("nan"), label=label)
            elif runs == "one" and seed == 0:
                experiment.complete(seed, 1.0, label=label)
    report_files = write(tmp_path, formats=FORMATS)
    messages = {
        "none": "No run has a score: 6 of 6 (6 planned)",
        "failed": "No run has a score: 6 of 6 (6 failed (nan))",
        "one": "one run",
        "constant": "all runs are equal",
        "nan": "completed without a finite score",
    }
    assert any(messages[runs] in notice.text for notice in report_files.notices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": ("htm",)}, "there is no format 'htm'; did you mean 'html'"),
        ({"formats": (",",)}, "--format is empty"),
        ({"phase": "tset"}, "there is no phase 'tset'; did you mean 'test'"),
        ({"overrides": ("intervall=t",)}, "unknown key 'intervall'"),
        ({"overrides": ("interval=z",)}, "must be 't', 'percentile', 'basic' or 'bca'"),
        ({"overrides": ("section=[verdict]",)}, "there is no section=verdict"),
        ({"overrides": ("metric=[]",)}, "metric is empty"),
        ({"overrides": ("margin=-1",)}, "must be greater than 0"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_writes_nothing(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """A mistake gives a one-line error, and nothing is written."""
    alpha(tmp_path)
    with pytest.raises(RlexpError) as caught:
        write(tmp_path, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "reports").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A file in place of the folder of the report is refused."""
    alpha(tmp_path)
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        ConfigError, match=r"cannot be written: .*; name another folder with --output"
    ):
        write(tmp_path, output=str(tmp_path / "taken"), settings=FEW)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """A folder in place of the file of the report is refused."""
    alpha(tmp_path)
    (tmp_path / "taken" / "report.html").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        write(tmp_path, output=str(tmp_path / "taken"), settings=FEW)


def test_formats_are_read_once_each() -> None:
    """Repeated and comma-separated formats are read once each."""
    assert ["csv", "html"] == read_formats(["csv,html", "csv"])


def test_phases_are_read() -> None:
    """A phase is read by its name, and may be absent."""
    assert (Phase.TUNING, None) == (read_phase("tuning"), read_phase(None))


def test_a_report_needs_no_learning_library(tmp_path: Path) -> None:
    """Writing a report imports no learning library."""
    alpha(tmp_path)
    probe = (
        "import sys\n"
        "from rlexp.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "heavy = {'torch', 'stable_baselines3', 'matplotlib', 'gymnasium'}\n"
        "print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    arguments = ["report", "alpha", "--set", "repetitions=200", "--set", "curve_repetitions=100"]
    process = subprocess.run(
        [sys.executable, "-c", probe, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0 []" == process.stderr.strip()
