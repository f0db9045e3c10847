"""What training writes so that it can go on: checkpoints, policies and recorded experience."""
