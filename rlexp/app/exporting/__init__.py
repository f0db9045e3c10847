"""Writes scores, scripts and model cards for use outside of rlexp."""
