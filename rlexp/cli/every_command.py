"""The application with every command, for help, completion and the pages of the documentation."""

from rlexp.cli.application import make_app

app = make_app()
