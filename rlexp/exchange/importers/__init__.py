"""The way in: results of other tools, read into one structure; nothing is executed or written."""
