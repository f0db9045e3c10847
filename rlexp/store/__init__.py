"""`runs/` on disk: every path, every file, every lock."""
