"""The files of a source: found, fetched with git, matched to a reader, and read within limits."""
