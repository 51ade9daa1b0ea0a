"""Text -> the entities it names, what joins them, and which names mean the same. One way of doing it a file."""
