"""What happened: events, and the records that are folded from them. Pure."""
