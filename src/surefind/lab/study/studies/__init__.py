"""The studies, one file each. A file has the constant `STUDY`, and the figures of its paper as data."""
