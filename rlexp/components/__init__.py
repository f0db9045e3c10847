"""Components: what changes a task, measures it, or helps to learn it, as wrappers of its environments.

Each is a frozen dataclass that follows `rlexp.environments.composed.Component`.
"""
