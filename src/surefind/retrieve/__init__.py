"""Retrievers: Query -> Rankings. One method a file; `_`-files hold the state that they build."""
