"""From evidence to numbers, and from numbers to pages, tables and figures."""
