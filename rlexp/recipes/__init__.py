"""Training scripts for other libraries, each executed in a virtual environment of its own."""
