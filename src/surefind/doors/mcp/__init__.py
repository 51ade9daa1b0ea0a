"""The MCP server: search, read, browse and propose, as tools for agents."""
