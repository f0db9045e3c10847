"""Training scripts for other libraries, each with its own virtual environment."""
