"""Finds the files of a source, fetches them with git, picks their readers, and limits what reading them may cost."""
