"""Archives of experiments that verify themselves."""
