"""Training scripts outside of rlexp: started, read, and their results checked."""
