"""Configuration: composed by Hydra, validated all at once, built into plug-ins."""
