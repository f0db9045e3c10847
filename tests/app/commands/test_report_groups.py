"""Configuration groups of reports are listed, and runs refuse them."""

from pathlib import Path

import pytest
from command_line import typed as rlexp
from stored_runs import study

from rlexp.app.commands.setup.configuration import list_groups, list_options, show_configuration
from rlexp.config.overrides import REPORT_GROUPS
from rlexp.errors import ConfigError


def test_groups_of_reports_are_written_as_settings_of_a_report(tmp_path: Path) -> None:
    """Groups of reports have a list as default and are set with `report --set`."""
    rows = {row.group: row for row in list_groups(study(tmp_path)).rows}
    assert "iqm median mean optimality_gap" == rows["metric"].default
    assert "report --set section=[…]" == rows["section"].write
    assert "4 options" in rlexp(tmp_path, "config", "list").out


def test_every_option_of_a_default_list_is_marked(tmp_path: Path) -> None:
    """Every section is a default option, and of the agents only one."""
    assert {True} == {row.default for row in list_options("section", study(tmp_path)).rows}
    agents = list_options("agent", study(tmp_path)).rows
    assert ["mlp"] == [row.option for row in agents if row.default]


@pytest.mark.parametrize("group", REPORT_GROUPS)
@pytest.mark.parametrize("mark", ["", "+"])
def test_no_run_has_a_group_of_reports(tmp_path: Path, group: str, mark: str) -> None:
    """A run refuses a group of reports."""
    with pytest.raises(ConfigError, match=f"{group} belongs to reports, not to runs; use it"):
        show_configuration([f"{mark}{group}=[a]"], study(tmp_path))
