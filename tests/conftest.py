"""Settings of every test; this file's folder becomes importable, `samples` with it."""

import signal

from hypothesis import settings

settings.register_profile("shared cores", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("shared cores")

# Where the tests run in the background of a shell, they and all they start would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
