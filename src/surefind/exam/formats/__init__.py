"""Exams from and to files. One format a file. A file with bad rows is refused whole, each row named by line."""
