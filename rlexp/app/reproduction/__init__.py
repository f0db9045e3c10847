"""Running again what was run, from the code that it was run with: what `rlexp reproduce` is made of."""
