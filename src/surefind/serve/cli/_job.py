"""Runs the command of a job: `python -m surefind.serve.cli._job`, with the command on standard input.

    {"author": "ada", "words": ["bench", "--as=hr", "--json"]}

The server starts this. Names of people and groups come as JSON, which no operating system cuts or splits.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    try:
        request = json.loads(sys.stdin.buffer.read())
    except KeyboardInterrupt:
        sys.exit(130)
    from surefind.__main__ import main as run
    from surefind.access import checked_name
    from surefind.serve.cli._common import JOB

    os.environ["SUREFIND_AUTHOR"] = checked_name(request["author"], "person")
    os.environ[JOB] = "1"
    sys.argv[:] = ["surefind", *request["words"]]
    run()


if __name__ == "__main__":
    main()
