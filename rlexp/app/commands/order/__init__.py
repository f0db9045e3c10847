"""Use cases that keep order: tag, note, mv, rm, gc, sync."""
