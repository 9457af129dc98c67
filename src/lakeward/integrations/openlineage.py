"""Events of OpenLineage for the commits of a lake and for measured quality.

`send_commits(lake)` sends one event for each committed transaction, from the log and at least once,
through a client of openlineage-python and any of its transports. A run's id is made from the id of
its transaction, so an event that is sent twice is the same event. Events have names, schemas,
versions, counts and columns; they have no rows, no texts of statements, no messages of users and no
credentials.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeward.errors import MissingExtra, NotFound, VersionNotFound
from lakeward.model.events import CommitEvent, FailedEvent
from lakeward.model.lineage.graph import EdgeKind, Lineage, LineageEdge, NodeKind
from lakeward.model.quality.report import Quality

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

PRODUCER: Final = "urn:lakeward"
_SPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
_FILES: Final = "file"
_LONGEST: Final = 512
_DIRECT: Final = ("DIRECT", "TRANSFORMATION")
_HOW: Final = {
    EdgeKind.VALUE: _DIRECT,
    EdgeKind.CLONE: ("DIRECT", "IDENTITY"),
    EdgeKind.ROWS: ("INDIRECT", "FILTER"),
    EdgeKind.CONDITION: ("INDIRECT", "CONDITIONAL"),
}


class Client(Protocol):
    """A client that sends events: `OpenLineageClient`, or an object with the same method."""

    def emit(self, event: Any) -> None:
        """Send an event."""


def send_commits(
    lake: Lake,
    *,
    client: Client | None = None,
    namespace: str = "lakeward",
    name: str | None = "openlineage",
) -> Sender:
    """Send an event for each transaction that is committed or fails from now on.

    A separate thread sends the events, so that they never delay a commit.

    Args:
        lake: The lake, which must stay open.
        client: The client that sends the events; unless given, an `OpenLineageClient` that reads
            its settings from the environment, as openlineage-python documents it.
        namespace: The namespace of the lake's tables and of jobs in events.
        name: The name under which the log keeps the position of the last sent commit, so that none
            is missed. None to send only commits of this lake object, without trying again.

    Raises:
        MissingExtra: openlineage-python is not installed.
    """
    sender = Sender(lake, client or _client(), namespace)
    lake.on("commit", sender.commit, name=name)
    lake.on("failed", sender.failure)
    return sender


class Sender:
    """Makes events of OpenLineage and sends them."""

    def __init__(self, lake: Lake, client: Client, namespace: str) -> None:
        self._lake = lake
        self._client = client
        self._namespace = namespace

    def commit(self, event: CommitEvent) -> None:
        """Send the event of a committed transaction."""
        found = self._lake.lineage(transaction=event.transaction_id)
        outputs = [
            self._output(table, version, found)
            if self._is_there(table, version, event.transaction_id)
            else _library().event_v2.OutputDataset(namespace=self._namespace, name=table)
            for table, version in sorted(event.versions.items())
        ]
        self._send(
            "COMPLETE",
            event.transaction_id,
            self._job(event.transaction_id, event.versions),
            event.timestamp,
            inputs=self._inputs(found),
            outputs=outputs,
        )

    def failure(self, event: FailedEvent) -> None:
        """Send the event of a failed transaction, with the error's class and not its message."""
        ol = _library()
        error = ol.facet_v2.error_message_run.ErrorMessageRunFacet(
            message=event.error, programmingLanguage="python", producer=PRODUCER
        )
        outputs = [
            ol.event_v2.OutputDataset(namespace=self._namespace, name=table)
            for table in event.tables
        ]
        job = self._job(event.transaction_id, event.tables)
        at, facets = event.timestamp, {"errorMessage": error}
        self._send("FAIL", event.transaction_id, job, at, outputs=outputs, facets=facets)

    def quality(self, measured: Quality) -> None:
        """Send the measured values of a table's expectations."""
        ol = _library()
        assertions = [
            ol.facet_v2.data_quality_assertions_dataset.Assertion(
                assertion=m.measure,
                success=m.passed,
                name=m.name,
                actual=str(m.value),
            )
            for m in measured.measurements
            if m.passed is not None
        ]
        facet = ol.facet_v2.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=assertions, producer=PRODUCER
        )
        table = ol.event_v2.InputDataset(
            namespace=self._namespace,
            name=measured.table,
            facets=self._dataset(measured.table, measured.version),
            inputFacets={"dataQualityAssertions": facet},
        )
        at = max((m.measured for m in measured.measurements), default=datetime.now(UTC))
        own = f"quality {measured.table} {measured.version} {at.isoformat()}"
        self._send("COMPLETE", own, f"quality.{measured.table}", at, inputs=[table])

    def _job(self, transaction_id: str, tables: Iterable[str]) -> str:
        try:
            return f"pipeline.{self._lake.run_record(transaction_id).pipeline}"
        except NotFound:
            return f"transaction.{'+'.join(sorted(tables))}"[:_LONGEST]

    def _send(
        self,
        kind: str,
        own: str,
        job: str,
        at: datetime,
        *,
        inputs: list[Any] | None = None,
        outputs: list[Any] | None = None,
        facets: Mapping[str, Any] | None = None,
    ) -> None:
        import lakeward

        ol = _library()
        engine = ol.facet_v2.processing_engine_run.ProcessingEngineRunFacet(
            version=lakeward.__version__, name="lakeward", producer=PRODUCER
        )
        how = ol.facet_v2.job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="LAKEWARD", jobType="JOB", producer=PRODUCER
        )
        self._client.emit(
            ol.event_v2.RunEvent(
                eventType=ol.event_v2.RunState(kind),
                eventTime=at.isoformat(),
                run=ol.event_v2.Run(
                    runId=str(uuid.uuid5(_SPACE, own)),
                    facets={"processing_engine": engine, **(facets or {})},
                ),
                job=ol.event_v2.Job(namespace=self._namespace, name=job, facets={"jobType": how}),
                inputs=inputs or [],
                outputs=outputs or [],
                producer=PRODUCER,
            )
        )

    def _inputs(self, found: Lineage) -> list[Any]:
        ol = _library()
        made: dict[tuple[str, str], Any] = {}
        for edge in found.edges:
            source = edge.source
            if source.kind is NodeKind.FILE:
                made[_FILES, source.name] = ol.event_v2.InputDataset(
                    namespace=_FILES, name=_without_secrets(source.name)
                )
            elif source.kind is NodeKind.TABLE and source != edge.target:
                is_there = source.table == source.name
                facets = self._dataset(source.name, edge.source_version) if is_there else {}
                made[self._namespace, source.table] = ol.event_v2.InputDataset(
                    namespace=self._namespace, name=source.table, facets=facets
                )
        return [made[key] for key in sorted(made)]

    def _is_there(self, table: str, version: int, transaction_id: str) -> bool:
        """Return whether the table of this name is still the one that the transaction changed.

        It may have been dropped, or renamed, and another one may have its name.
        """
        try:
            found = self._lake.table(table).history(since=version, until=version)
        except NotFound:
            return False
        return [one.transaction_id for one in found] == [transaction_id]

    def _output(self, table: str, version: int, found: Lineage) -> Any:
        ol = _library()
        facets = self._dataset(table, version)
        edges = [e for e in found.columns if e.target.name == table and e.source.column]
        if edges:
            facets["columnLineage"] = self._columns(edges)
        counted: dict[str, int] = {}
        # The files of a vacuumed version are not known.
        with suppress(VersionNotFound):
            counted = _counted(self._lake.table(table), version)
        written = ol.facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            **counted, producer=PRODUCER
        )
        return ol.event_v2.OutputDataset(
            namespace=self._namespace,
            name=table,
            facets=facets,
            outputFacets={"outputStatistics": written},
        )

    def _dataset(self, table: str, version: int | None) -> dict[str, Any]:
        """Return the facets of a version of a table: schema, version, and location of its files.

        There are none for a table that was dropped, and for a version that was vacuumed.
        """
        ol = _library()
        try:
            found = self._lake.table(table)
            schema = found.at(version=version).schema
        except NotFound:
            return {}
        fields = [
            ol.facet_v2.schema_dataset.SchemaDatasetFacetFields(name=f.name, type=str(f.type))
            for f in schema.fields
        ]
        place = _without_secrets(found.location)
        link = ol.facet_v2.symlinks_dataset.Identifier(
            namespace=place.partition("://")[0] if "://" in place else _FILES,
            name=place.partition("://")[2] if "://" in place else place,
            type="TABLE",
        )
        made = {
            "schema": ol.facet_v2.schema_dataset.SchemaDatasetFacet(
                fields=fields, producer=PRODUCER
            ),
            "symlinks": ol.facet_v2.symlinks_dataset.SymlinksDatasetFacet(
                identifiers=[link], producer=PRODUCER
            ),
        }
        if version is not None:
            made["version"] = ol.facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=str(version), producer=PRODUCER
            )
        return made

    def _columns(self, edges: Iterable[LineageEdge]) -> Any:
        ol = _library()
        module = ol.facet_v2.column_lineage_dataset
        fields: dict[str, list[Any]] = {}
        for edge in edges:
            kind, subtype = _HOW.get(edge.kind, _DIRECT)
            is_file = edge.source.kind is NodeKind.FILE
            fields.setdefault(str(edge.target.column), []).append(
                module.InputField(
                    namespace=_FILES if is_file else self._namespace,
                    name=_without_secrets(edge.source.name) if is_file else edge.source.name,
                    field=str(edge.source.column),
                    transformations=[module.Transformation(type=kind, subtype=subtype)],
                )
            )
        return module.ColumnLineageDatasetFacet(
            fields={name: module.Fields(inputFields=found) for name, found in fields.items()},
            producer=PRODUCER,
        )


def _without_secrets(place: str) -> str:
    """Return a location without parts that may be credentials: user, password, query."""
    scheme, mark, rest = place.partition("://")
    if not mark:
        return place
    path = rest.partition("?")[0]
    host, slash, below = path.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{below}"


def _client() -> Client:
    made: Client = _library().OpenLineageClient()
    return made


def _library() -> Any:
    try:
        import openlineage.client
        import openlineage.client.event_v2
        import openlineage.client.facet_v2
    except ImportError as error:
        what = "Events of OpenLineage need openlineage-python."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[openlineage]'.") from error
    return openlineage.client


def _counted(table: Any, version: int) -> dict[str, int]:
    """Return the size and the number of rows and files that a version added."""
    if version:
        added = table.diff(version - 1, version).added_files
        sizes = [(f.size, f.rows or 0) for f in added]
    else:
        sizes = [(f.file.size, f.file.logged_rows) for f in table.at(version=0).files()]
    return {
        "size": sum(size for size, _ in sizes),
        "rowCount": sum(rows for _, rows in sizes),
        "fileCount": len(sizes),
    }
