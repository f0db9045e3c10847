"""Tables whose last column holds remarks, which few rows have."""

from dataclasses import replace

from rlexp.reports.drawing.blocks import Column, Table

REMARK = Column(title="remark")


def remarked(table: Table) -> Table:
    """The table without its last column, of remarks, where no row has one."""
    if any(row[-1] is not None for row in table.rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))
