"""Replay buffers: what the plug-ins of replay build, with the libraries of learning."""
