"""Streams of candidates: their code, what is protected, their trainings, and the scores that count."""
