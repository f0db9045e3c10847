"""The MCP server: use cases as tools for programs that speak the Model Context Protocol.

Each call is executed in a process of its own, so that it reads the user's code as it is now, and so that it
can be interrupted like a command.
"""
