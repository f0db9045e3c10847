"""Settings of every test; this file's folder becomes importable, `samples` with it."""

from hypothesis import settings

settings.register_profile("shared cores", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("shared cores")
