"""Components: plug-ins that wrap the environments of a task.

A component changes the task, measures it, or helps to learn it. Each component is a frozen
dataclass that implements `rlexp.environments.composed.Component`.
"""
