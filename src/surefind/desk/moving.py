"""Moves the drafts of a catalogue of an earlier release to the desk."""

from __future__ import annotations

from surefind.desk.source import shown, text_name
from surefind.desk.store import Content, Desk
from surefind.desk.taking import base_of
from surefind.store.catalogue import Catalogue


def move_drafts(catalogue: Catalogue, desk: Desk) -> None:
    """Moves every draft of the catalogue to the desk, under its number. The writer's lock must be held. A move that was
    interrupted is completed by the next one."""
    numbers = catalogue.versions.waiting()
    if not numbers:
        return
    for version in catalogue.versions.in_state(("draft", "in review"), ()):
        document = catalogue.versions.document(version.number)
        text = shown(document)
        content = Content(text_name(document.id), text.encode(), text, document.title, document.acl, len(document.text))
        taken = desk.document_of(version.number)
        desk.add(
            document.id,
            content,
            version.author,
            base_of(catalogue, document.id)[0],
            what="made the draft, in an earlier release",
            number=version.number if taken in (None, document.id) else None,
            state=version.state if version.state == "in review" else "draft",
        )
    with catalogue.transaction():
        for number in numbers:
            catalogue.versions.set_state(number, "published")  # no set holds it, so it is deleted
        catalogue.versions.delete_unheld()
