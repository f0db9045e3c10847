"""Commands that keep order: tag, note, mv, rm, gc, sync."""
