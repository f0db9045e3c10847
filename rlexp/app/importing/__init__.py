"""Stores runs that other tools made."""
