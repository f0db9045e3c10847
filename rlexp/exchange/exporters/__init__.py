"""The way out to other tools: records as tables, arrays, JSON and scripts. Nothing here writes."""
