"""The environments of a training: watched, logged, replayed, in processes of their own, and taught."""
