"""Who may write into a folder."""
