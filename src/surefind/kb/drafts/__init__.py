"""Drafts: where they are written, reviewed and approved before they are published.

    draft -> in review -> approved -> published          discarded: at any time before that

Everything is in `.surefind/drafts.db`, apart from the catalogue. A save is one short transaction and needs no writer's
lock, so people can write while a sync runs. Publishing is a write to the catalogue, as a sync is.
"""
