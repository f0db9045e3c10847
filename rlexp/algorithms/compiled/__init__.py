"""What compiled algorithms share: their learners, and their programs of JAX."""
