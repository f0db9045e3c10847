"""`rlexp report`: files, exit codes, and what is told."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, configuration, console, failed, output, stored, study

from rlexp.app.commands.report import Wanted, report
from rlexp.app.reporting.build import FORMATS, read_formats, read_phase
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.seeds import Phase

quick = pytest.fixture(autouse=True)(quick_parts)

QUICK = ("repetitions=200", "curve_repetitions=100")
FEW = (*QUICK, "section=[verdicts,checklist,missing]")
"""Of a report whose other sections do not matter."""


def alpha(folder: Path) -> Stored:
    """Two labels with four scores each."""
    own = stored(study(folder).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4)
    for seed in range(4):
        own.complete(seed, 400.0 + seed)
        own.complete(seed, 100.0 + seed, label="a2c")
    return own


def write(folder: Path, *targets: str, **wanted: Any) -> int:
    """Write a report with few resamples; `settings` may ask for less."""
    words = (*wanted.pop("settings", QUICK), *wanted.pop("words", ()))
    asked = Wanted(words=words, **wanted)
    return report(targets or ("alpha",), asked, study(folder), console())


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_page_is_written_beside_the_runs(tmp_path: Path) -> None:
    """Under `reports/` in the study, named after the experiment."""
    alpha(tmp_path)
    assert 0 == write(tmp_path, settings=FEW)
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha"))


def test_several_experiments_share_a_report(tmp_path: Path) -> None:
    """Its folder names both."""
    alpha(tmp_path)
    stored(study(tmp_path).layout, "beta", configuration("dqn"))
    assert 0 == write(tmp_path, "alpha", "beta", settings=FEW)
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha+beta"))


def test_every_format_writes_its_files(tmp_path: Path) -> None:
    """All of them from one study of numbers."""
    alpha(tmp_path)
    assert 0 == write(tmp_path, formats=(",".join(FORMATS),), output=str(tmp_path / "out"))
    written = files(tmp_path / "out")
    expected = {f"report.{kind}" for kind in ("html", "json", "md", "tex")} | {"aggregates.csv"}
    assert expected <= written.keys()


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever and wherever the report is written."""
    alpha(tmp_path)
    for name in ("first", "second"):
        write(tmp_path, formats=FORMATS, output=str(tmp_path / name))
    assert files(tmp_path / "first") == files(tmp_path / "second")


def test_settings_may_be_changed_once(tmp_path: Path) -> None:
    """The words of `--set` reach the numbers."""
    alpha(tmp_path)
    words = ("interval=percentile", "section=[aggregates]", "metric=[mean]")
    write(tmp_path, words=words, formats=("csv",), output=str(tmp_path / "out"))
    assert {"aggregates.csv", "aggregates-figure.csv"} == files(tmp_path / "out").keys()
    assert b"percentile" in files(tmp_path / "out")["aggregates.csv"]


def test_a_study_may_have_settings_of_its_own(tmp_path: Path) -> None:
    """Its `conf/report.yaml` stands in place of ours."""
    alpha(tmp_path)
    (tmp_path / "conf").mkdir()
    ours = (Path(__file__).parents[2] / "conf" / "report.yaml").read_text()
    own = "\n".join(
        "  - section: [aggregates]" if "- section:" in line else line for line in ours.splitlines()
    )
    (tmp_path / "conf" / "report.yaml").write_text(own.replace("interval: t ", "interval: bca "))
    write(tmp_path, formats=("csv",), output=str(tmp_path / "out"))
    assert {"aggregates.csv", "aggregates-figure.csv", "anchors.csv"} >= (
        files(tmp_path / "out").keys()
    )
    assert b"BCa" in files(tmp_path / "out")["aggregates.csv"]


def test_a_study_may_have_a_section_of_its_own(tmp_path: Path) -> None:
    """One class and one yaml."""
    alpha(tmp_path)
    (tmp_path / "conf" / "section").mkdir(parents=True)
    own = "# Mine.\nmine:\n  _target_: my_section.Mine\n  word: hello\n"
    (tmp_path / "conf" / "section" / "mine.yaml").write_text(own)
    (tmp_path / "my_section.py").write_text(
        "from dataclasses import dataclass\n"
        "from rlexp.reports.blocks import Part, Text\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    word: str\n"
        "    def part(self, inquiry):\n"
        "        return Part(name='mine', title='Mine', blocks=(Text(text=self.word),))\n"
    )
    done = subprocess.run(
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
    assert (0, "") == (done.returncode, done.stderr)
    assert b"hello" in files(tmp_path / "reports")["alpha/report.html"]


def test_verdicts_and_files_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the terminal, with the next command."""
    alpha(tmp_path)
    write(tmp_path, settings=FEW)
    told = output(capsys)
    assert "ppo is better than a2c: a difference of 300" in told
    assert f"Wrote {tmp_path / 'reports' / 'alpha' / 'report.html'}" in told.replace("\n", "")
    assert "rlexp compare alpha" in told


def test_machines_get_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files, checks, notices and the next command."""
    alpha(tmp_path)
    asked = Wanted(words=FEW)
    report(["alpha"], asked, study(tmp_path), console(as_json=True))
    told = json.loads(output(capsys))
    assert {"files", "failed_checks", "notices", "next"} == told.keys()
    assert ([], "good") == (told["failed_checks"], told["notices"][0]["tone"])


def test_many_files_are_not_named_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many more there are is."""
    alpha(tmp_path)
    write(tmp_path, formats=("csv",))
    told = output(capsys)
    count = len(files(tmp_path / "reports" / "alpha"))
    assert count > 10
    assert f"Wrote {count - 10} further files" in told


@pytest.mark.parametrize(("strict", "code"), [(True, 3), (False, 0)])
def test_strict_refuses_missing_data(tmp_path: Path, strict: bool, code: int) -> None:
    """The report is written all the same."""
    own = stored(study(tmp_path).layout)
    own.complete(0, 1.0)
    own.attempt(1, failed())
    assert code == write(tmp_path, strict=strict, settings=FEW)
    assert ["report.html"] == list(files(tmp_path / "reports" / "alpha"))


def test_strict_passes_what_is_complete(tmp_path: Path) -> None:
    """Nothing is missing, nothing is refused."""
    alpha(tmp_path)
    assert 0 == write(tmp_path, strict=True, settings=FEW)


def test_strict_refuses_another_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tuning runs are reported with a loud warning, and not accepted."""
    own = stored(study(tmp_path).layout)
    for seed in range(2):
        own.complete(seed, 1.0, phase=Phase.TUNING)
    assert 3 == write(tmp_path, strict=True, settings=FEW)
    assert "These are tuning runs, not test runs" in output(capsys)


@pytest.mark.parametrize("runs", ["none", "failed", "one", "constant", "nan"])
def test_bad_input_gets_a_report_that_says_so(
    tmp_path: Path, runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback."""
    own = stored(study(tmp_path).layout, "alpha", configuration("ppo"), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(3):
            if runs == "failed":
                own.attempt(seed, failed(), label=label)
            elif runs in {"constant", "nan"}:
                own.complete(seed, 1.0 if runs == "constant" else float("nan"), label=label)
            elif runs == "one" and seed == 0:
                own.complete(seed, 1.0, label=label)
    assert 0 == write(tmp_path, formats=FORMATS)
    words = {
        "none": "No run has a score: 6 of 6 (6 planned)",
        "failed": "No run has a score: 6 of 6 (6 failed (nan))",
        "one": "one run",
        "constant": "all runs are equal",
        "nan": "completed without a finite score",
    }
    assert words[runs] in output(capsys).replace("\n", " ")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"formats": ("htm",)}, "there is no format 'htm'; did you mean 'html'"),
        ({"formats": (",",)}, "--format is empty"),
        ({"phase": "tset"}, "there is no phase 'tset'; did you mean 'test'"),
        ({"words": ("intervall=t",)}, "unknown key 'intervall'"),
        ({"words": ("interval=z",)}, "must be 't', 'percentile', 'basic' or 'bca'"),
        ({"words": ("section=[verdict]",)}, "there is no section=verdict"),
        ({"words": ("metric=[]",)}, "metric is empty"),
        ({"words": ("margin=-1",)}, "must be greater than 0"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_writes_nothing(
    tmp_path: Path, wanted: dict[str, Any], words: str
) -> None:
    """What was wrong, and what is allowed."""
    alpha(tmp_path)
    with pytest.raises(RlexpError) as caught:
        write(tmp_path, **wanted)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "reports").exists()


def test_a_file_is_no_folder_to_write_to(tmp_path: Path) -> None:
    """The mistake is told."""
    alpha(tmp_path)
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        ConfigError, match=r"cannot be written: .*; name another folder with --output"
    ):
        write(tmp_path, output=str(tmp_path / "taken"), settings=FEW)


def test_a_folder_is_no_file_to_write_to(tmp_path: Path) -> None:
    """The mistake is told."""
    alpha(tmp_path)
    (tmp_path / "taken" / "report.html").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        write(tmp_path, output=str(tmp_path / "taken"), settings=FEW)


def test_formats_are_read_once_each() -> None:
    """Repeated, or told apart by commas."""
    assert ["csv", "html"] == read_formats(["csv,html", "csv"])


def test_phases_are_read() -> None:
    """No word means: whichever the targets have."""
    assert (Phase.TUNING, None) == (read_phase("tuning"), read_phase(None))


def test_a_report_needs_no_learning_library(tmp_path: Path) -> None:
    """It reads records, quickly."""
    alpha(tmp_path)
    probe = (
        "import sys\n"
        "from rlexp.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "heavy = {'torch', 'stable_baselines3', 'matplotlib', 'gymnasium'}\n"
        "print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    words = ["report", "alpha", "--set", "repetitions=200", "--set", "curve_repetitions=100"]
    done = subprocess.run(
        [sys.executable, "-c", probe, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0 []" == done.stderr.strip()
