"""Each study's own table as a plan. One preset a file: `CONTENDERS` and `MEASURES`."""
