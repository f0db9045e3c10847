"""The use cases, one file each, and the only wiring."""
