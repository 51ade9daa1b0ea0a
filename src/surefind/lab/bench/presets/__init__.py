"""Presets: each repeats the table of a study. One preset per file: `CONTENDERS`, `MEASURES` and, in some, `LAYOUTS`."""
