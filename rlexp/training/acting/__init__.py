"""What acts while a run trains: how callbacks are called, and the changes of a learner that they make."""
