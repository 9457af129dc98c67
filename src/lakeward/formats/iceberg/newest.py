"""Which of the metadata documents in a table's directory is the table, where no catalog tells.

Documents that led to another one are named in it, so the question is only about the newest. A lake
writes a document before it ratifies the commit, and names it in `version-hint.text` after that, and
before the commit is acknowledged. So a lake's document that no hint and no other table of its
transaction vouches for was never acknowledged: it is left out. Documents of others are taken as
they are: they leave no evidence but themselves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import orjson

from lakeward.errors import CorruptTable, FileMissing, TableNotFound
from lakeward.formats.iceberg.definition import created_of
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document, parse
from lakeward.formats.iceberg.summary import transaction_of
from lakeward.storage.base import Storage

HINT: Final = "version-hint.text"
_DOCUMENT: Final = re.compile(r"v?(\d+)(?:-[\w-]+)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


@dataclass
class Candidates:
    """The documents in a table's directory.

    Attributes:
        location: The table's directory, as the storage takes it.
        names: Of the documents, by their numbers.
        hinted: The one that the hint names.
    """

    storage: Storage
    location: str
    names: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    hinted: str | None = None
    _read: dict[str, Document] = field(default_factory=dict)

    @classmethod
    def at(cls, storage: Storage, location: str) -> Candidates:
        """What lies in a directory; maybe nothing."""
        found = cls(storage, location)
        listed = storage.listing(f"{location}/{METADATA_DIRECTORY}")
        for name in sorted(f.path.rpartition("/")[2] for f in listed):
            number = document_number(name)
            if number is not None:
                found.names[number].append(name)
        found.hinted = found._hint()
        return found

    def document(self, name: str) -> Document:
        """A document by its name in the directory.

        Raises:
            CorruptTable: It is none, or not there.
        """
        if name not in self._read:
            path = f"{self.location}/{METADATA_DIRECTORY}/{name}"
            try:
                self._read[name] = parse(self.storage.uri(path), self.storage.read(path))
            except FileMissing as error:
                what = f"The metadata file {path} is missing."
                raise CorruptTable(what, path=path) from error
        return self._read[name]

    def vouched(self) -> Iterator[str]:
        """Transactions that surely were ratified, as the hint tells."""
        if self.hinted is None:
            return
        document = self.document(self.hinted)
        told = [transaction_of(s) for s in document.all_snapshots().values()]
        for found in (created_of(document).get("transaction_id"), *told):
            if found is not None:
                yield found

    def are_litter(self) -> bool:
        """Whether all that lies there is what the making of a table left when it was cut off."""
        names = [name for group in self.names.values() for name in group]
        try:
            return self.hinted is None and all(self._author(self.document(n)) for n in names)
        except CorruptTable:
            return False

    def newest(
        self, ratified: Callable[[str], bool] = lambda _: False
    ) -> tuple[Document, list[str]]:
        """The newest document that can be trusted, and the names of newer ones that cannot.

        Args:
            ratified: Whether a transaction of the lake's is known from elsewhere to have happened.

        Raises:
            TableNotFound: There is no document.
            CorruptTable: There is none that can be trusted, or the hint names a damaged one.
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
            # Whatever is wrong with it must be told.
            return bool(self.document(name))
        try:
            document = self.document(name)
        except CorruptTable:
            return False
        author = self._author(document)
        return author is None or ratified(author)

    def _author(self, document: Document) -> str | None:
        """The transaction of a lake's that wrote the document; None where others did."""
        if not document.metadata_log:
            return created_of(document).get("transaction_id")
        before = _name(str(orjson.loads(document.metadata_log[-1]).get("metadata-file", "")))
        with suppress(CorruptTable):
            if _current_id(self.document(before)) == _current_id(document):
                # A lake's commit always brings a snapshot.
                return None
        return transaction_of(document.current)

    def _hint(self) -> str | None:
        """The document that the hint names, or a later one of a Hadoop catalog that follows it."""
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


def hint_text(location: str) -> str:
    """What the hint says of a document."""
    return _name(location).removesuffix(".metadata.json")


def document_number(name: str) -> int | None:
    """How many documents came before, as a document's name tells; None where it is no such name."""
    found = _DOCUMENT.fullmatch(_name(name))
    return int(found[1]) if found else None


def _following(number: int, names: Collection[str]) -> list[int]:
    """The number in the hint and those after it that are there, without a gap."""
    there = {document_number(n) for n in names}
    out = []
    while number in there:
        out.append(number)
        number += 1
    return out


def _current_id(document: Document) -> int | None:
    return None if document.current is None else int(document.current["snapshot-id"])


def _name(location: str) -> str:
    return location.rpartition("/")[2]
