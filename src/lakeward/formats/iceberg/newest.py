"""Finds the current metadata document in a table's directory, without a catalog.

A document lists its predecessors, so only the newest has to be found. A lake writes a document
before it ratifies the commit, and writes its name into `version-hint.text` after ratification and
before it acknowledges the commit. So a document of a lake that neither a hint nor another table of
its transaction confirms was never acknowledged, and is left out. Documents of other writers are
trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from lakeward.errors import CorruptTable, FileMissing, TableNotFound
from lakeward.formats.iceberg.definition import created_of
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.hints import HINT, document_number
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.model.commit import Head
from lakeward.storage.base import Storage


@dataclass
class Candidates:
    """The metadata files of an Iceberg table, one of which is the newest.

    Attributes:
        location: The table's directory, as a path of the storage.
        names: Names of the metadata files, by the version number in the name.
        hinted: Name of the file that `version-hint.text` refers to, if it exists.
    """

    storage: Storage
    location: str
    names: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    hinted: str | None = None
    _read: dict[str, Document] = field(default_factory=dict)

    @classmethod
    def at(cls, storage: Storage, location: str) -> Candidates:
        """List the documents in a directory, which may be missing."""
        found = cls(storage, location)
        listed = storage.listing(f"{location}/{METADATA_DIRECTORY}")
        for name in sorted(f.path.rpartition("/")[2] for f in listed):
            number = document_number(name)
            if number is not None:
                found.names[number].append(name)
        found.hinted = found._hint()
        return found

    def document(self, name: str) -> Document:
        """Return a document by its file name; raise `CorruptTable` if it is damaged."""
        if name not in self._read:
            path = f"{self.location}/{METADATA_DIRECTORY}/{name}"
            try:
                self._read[name] = parse(self.storage.uri(path), self.storage.read(path))
            except FileMissing as error:
                what = f"The metadata file {path} is missing."
                raise CorruptTable(what, path=path) from error
        return self._read[name]

    def vouched(self) -> Iterator[str]:
        """Yield the ids of transactions that were ratified according to the hint."""
        if self.hinted is None:
            return
        document = self.document(self.hinted)
        written = [transaction_of(s) for s in document.all_snapshots().values()]
        for found in (created_of(document).get("transaction_id"), *written):
            if found is not None:
                yield found

    def are_litter(self) -> bool:
        """Return whether all documents are left over from an unfinished creation of a table."""
        numbered = [(number, name) for number, group in self.names.items() for name in group]
        try:
            return self.hinted is None and all(
                (number == 0 and self._is_torn(name)) or self._author(self.document(name))
                for number, name in numbered
            )
        except CorruptTable:
            return False

    def _is_torn(self, name: str) -> bool:
        """Return whether a process that was writing a document was killed."""
        path = f"{self.location}/{METADATA_DIRECTORY}/{name}"
        data = self.storage.read(path) if name.endswith(".metadata.json") else b"}"
        return not data.rstrip().endswith(b"}") and not data.startswith(b"\x1f\x8b")

    def newest(
        self, ratified: Callable[[str], bool] = lambda _: False
    ) -> tuple[Document, list[str]]:
        """Return the newest document that can be trusted, and names of newer ones that cannot.

        `ratified` returns whether other tables show that a transaction of the lake was ratified.
        Raises `TableNotFound` if there is no document, and `CorruptTable` if none can be trusted.
        """
        if not self.names:
            what = f"There is no Iceberg table at {self.storage.uri(self.location)}."
            raise TableNotFound(what, hint="Give the table's directory, or a metadata file.")
        doubtful: list[str] = []
        for number in sorted(self.names, reverse=True):
            group = [n for n in self.names[number] if self._is_trusted(n, ratified)]
            doubtful += [n for n in self.names[number] if n not in group]
            if group:
                return max((self.document(n) for n in group), key=self._preference), doubtful
        what = f"No metadata document at {self.storage.uri(self.location)} can be trusted."
        raise CorruptTable(what, hint="Adopt it by the metadata file that you know is right.")

    def _preference(self, document: Document) -> tuple[bool, int]:
        return _name(document.location) == self.hinted, document.updated_ms

    def _is_trusted(self, name: str, ratified: Callable[[str], bool]) -> bool:
        if name == self.hinted:
            # If the hint refers to a damaged document, the error must be raised.
            return bool(self.document(name))
        try:
            document = self.document(name)
        except CorruptTable:
            return False
        author = self._author(document)
        return author is None or ratified(author)

    def _author(self, document: Document) -> str | None:
        """Return the id of the lake's transaction that wrote the document; None for others."""
        if not document.metadata_log:
            return created_of(document).get("transaction_id")
        before = _name(str(orjson.loads(document.metadata_log[-1]).get("metadata-file", "")))
        with suppress(CorruptTable):
            if self.document(before).current_id == document.current_id:
                # A commit of a lake always adds a snapshot.
                return None
        return transaction_of(document.current)

    def _hint(self) -> str | None:
        """Return the document that the hint refers to, or a later one of a Hadoop catalog."""
        try:
            text = self.storage.read(f"{self.location}/{METADATA_DIRECTORY}/{HINT}").decode()
        except (FileMissing, UnicodeDecodeError):
            return None
        text = text.strip()
        every = {name for names in self.names.values() for name in names}
        if not text.isdecimal():
            return next((n for n in every if n.startswith(f"{text}.")), None) if text else None
        numbers = _following(int(text), {n for n in every if n.startswith("v")})
        return next((n for n in sorted(every) if document_number(n) in numbers[-1:]), None)


def document_for_read(storage: Storage, head: Head) -> tuple[Document, bool]:
    """Return the document that a head points to, or the newest one, and whether it is the head's.

    Commits delete documents that newer ones no longer list, and a pinned reader may be older. The
    newest document has all name mappings, defaults and partition specs of older ones.
    """
    pointer = str(head.pointer)
    try:
        return parse(pointer, storage.read(storage.path_of(pointer))), True
    except FileMissing:
        found = Candidates.at(storage, head.location)
        newest = found.newest()[0] if found.names else None
        number = document_number(pointer) or 0
        if newest is None or (document_number(newest.location) or 0) <= number:
            raise
        return newest, False


def _following(number: int, names: Collection[str]) -> list[int]:
    """Return the number in the hint and those after it, as long as their documents exist."""
    there = {document_number(n) for n in names}
    out = []
    while number in there:
        out.append(number)
        number += 1
    return out


def _name(location: str) -> str:
    return location.rpartition("/")[2]
