"""The current reader of a layout: swapped for the next generation's by one assignment, once that is open.

The next generation is opened in the background, with the indexes and masks that were in use. A request that began on a
reader ends on it. Where the next one cannot be opened, searches go on with the one that is there, and `problem` says
why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from surefind.errors import SurefindError
from surefind.search.reader import Reader

_RETRY_SECONDS = 2.0


class Current:
    def __init__(self, newest: Callable[[], int], open: Callable[[Reader | None], Reader]) -> None:
        """`newest` gives the number of the newest generation, `open` opens it, given the reader before it."""
        self._newest = newest
        self._open = open
        self._reader: Reader | None = None
        self._opening = threading.Lock()
        self._tried, self._again = 0, 0.0
        """The generation that was tried last, and when to try it again."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self.problem = ""
        """Why the newest generation is not the current one; empty while all is well."""

    def get(self) -> Reader:
        """The reader to begin a request on. If a newer generation is there, it is opened meanwhile."""
        reader = self._reader
        if reader is None:
            return self.refresh()
        newest = self._newest()
        due = newest != self._tried or time.monotonic() > self._again
        if newest != reader.generation and due and self._opening.acquire(blocking=False):
            self._tried, self._again = newest, time.monotonic() + _RETRY_SECONDS
            self._thread = threading.Thread(target=self._in_background, name="surefind-open", daemon=True)
            self._thread.start()
        return reader

    def refresh(self) -> Reader:
        """The reader of the newest generation, opened now if it is not yet."""
        with self._opening:
            reader = self._reader
            if reader is None or reader.generation != self._newest():
                reader = self._reader = self._open(reader)
                self.problem = ""
            return reader

    def _in_background(self) -> None:
        try:
            reader = self._open(self._reader)
            if not self._closed:
                self._reader = reader
            self.problem = ""
        except Exception as error:  # whatever it was, searches go on with the reader that is there
            self.problem = str(error) if isinstance(error, SurefindError) else f"{type(error).__name__}: {error}"
        finally:
            self._opening.release()

    def drop(self) -> None:
        """Forget the reader: the next request opens one."""
        with self._opening:
            self._reader = None

    def close(self) -> None:
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join()
        self._reader = None
