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
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeward.errors import MissingExtra, NotFound
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
}


class Client(Protocol):
    """What sends events: `OpenLineageClient`, or something with the same method."""

    def emit(self, event: Any) -> None:
        """Send an event."""


def send_commits(
    lake: Lake,
    *,
    client: Client | None = None,
    namespace: str = "lakeward",
    name: str | None = "openlineage",
) -> Sender:
    """Send an event for each transaction that is committed from now on, and for failed ones.

    Sending happens in a thread of its own and never delays a commit.

    Args:
        lake: The lake, which stays open.
        client: What sends them; unless given, an `OpenLineageClient` that is set up by the
            environment, as openlineage-python documents it.
        namespace: Of the lake's tables and of jobs.
        name: The name under which the log keeps how far events were sent, so that none is missed;
            None to send those of this lake object alone, and to miss what fails.

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
            self._output(table, version, found) for table, version in sorted(event.versions.items())
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
        """Send the event of a transaction that an error ended; of the error, its kind alone."""
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
        """Send what was measured of a table's expectations."""
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
                facets = self._dataset(source.name, edge.source_version)
                made[self._namespace, source.name] = ol.event_v2.InputDataset(
                    namespace=self._namespace, name=source.name, facets=facets
                )
        return [made[key] for key in sorted(made)]

    def _output(self, table: str, version: int, found: Lineage) -> Any:
        ol = _library()
        facets = self._dataset(table, version)
        edges = [e for e in found.columns if e.target.name == table and e.source.column]
        if edges:
            facets["columnLineage"] = self._columns(edges)
        added = self._lake.table(table).diff(version - 1, version) if version else None
        counted = (
            {}
            if added is None
            else {
                "size": sum(f.size for f in added.added_files),
                "rowCount": sum(f.rows or 0 for f in added.added_files),
                "fileCount": len(added.added_files),
            }
        )
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
        """The facets of a version of a table: schema, version, and where its files are."""
        ol = _library()
        found = self._lake.table(table)
        schema = found.at(version=version).schema
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
            fields.setdefault(str(edge.target.column), []).append(
                module.InputField(
                    namespace=self._namespace,
                    name=edge.source.name,
                    field=str(edge.source.column),
                    transformations=[module.Transformation(type=kind, subtype=subtype)],
                )
            )
        return module.ColumnLineageDatasetFacet(
            fields={name: module.Fields(inputFields=found) for name, found in fields.items()},
            producer=PRODUCER,
        )


def _without_secrets(place: str) -> str:
    """A location without what may be a credential: user, password, query."""
    scheme, mark, rest = place.partition("://")
    if not mark:
        return place
    path = rest.partition("?")[0]
    host, slash, below = path.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{below}"


def _client() -> Client:
    from openlineage.client import OpenLineageClient

    _library()
    made: Client = OpenLineageClient()
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
