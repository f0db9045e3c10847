"""What is refused before anything trains: parts that do not fit, and code without permission."""
