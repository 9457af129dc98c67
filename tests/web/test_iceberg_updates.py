"""Updates of REST clients that would damage a table are refused before a byte is written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.s3 import on_disk
from tests.support.service import Service

TABLES = "/iceberg/v1/namespaces/sales/tables"
PATH = f"{TABLES}/checked"
Json = dict[str, Any]


def field(number: Any, name: str, kind: Any, *, required: bool = False, **more: Any) -> Json:
    return {"id": number, "name": name, "required": required, "type": kind, **more}


def struct(*fields: Json) -> Json:
    return {"type": "struct", "fields": list(fields)}


def list_of(number: Any, kind: str = "int", *, required: bool = False) -> Json:
    return {"type": "list", "element-id": number, "element": kind, "element-required": required}


def map_of(key: Any, value: Any, kind: str = "int") -> Json:
    ids = {"key-id": key, "value-id": value, "value-required": False}
    return {"type": "map", "key": "string", "value": kind, **ids}


INNER = (field(11, "a", "double", required=True), field(12, "b", "int"))
# With the ids that the catalog gives them: those of parts come after those of columns.
COLUMNS = [
    field(1, "id", "long", required=True),
    field(2, "n", "int"),
    field(3, "f", "float"),
    field(4, "d", "decimal(9, 2)"),
    field(5, "s", "string"),
    field(6, "day", "date"),
    field(7, "x", "double", required=True),
    field(8, "point", struct(*INNER)),
    field(9, "tags", list_of(13, "string")),
    field(10, "m", map_of(14, 15)),
]
NULLS = dict.fromkeys(("d", "s", "day", "m"))
ROW = {**NULLS, "id": 1, "n": 1, "f": 0.5, "x": 0.5, "point": {"a": 0.5, "b": 1}, "tags": ["a"]}
NEW = f"schema.fields[{len(COLUMNS)}]"


class Client:
    """A writer, and the table that it tries to change."""

    def __init__(self, service: Service) -> None:
        self._http: httpx.Client = service.as_("writer")
        body = {"name": "checked", "schema": {"type": "struct", "fields": COLUMNS}}
        made = self._http.post(TABLES, json=body)
        assert made.status_code == 200, made.text
        self.table = service.lake.table("sales.checked")
        self.table.append([ROW])
        self._warehouse = on_disk(self.table.location).parent
        self.metadata: Json = self._http.get(PATH).json()["metadata"]

    def refused(self, path: str, body: Json) -> str:
        """The message of the refusal of a request, which has changed nothing."""
        before = self._files()
        answer = self._http.post(path, json=body)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "BadRequestException"
        assert self._files() == before
        return str(error["message"])

    def refused_updates(self, *updates: Json) -> str:
        return self.refused(PATH, {"updates": list(updates), "requirements": []})

    def taken(self, *updates: Json) -> None:
        answer = self._http.post(PATH, json={"updates": list(updates), "requirements": []})
        assert answer.status_code == 200, answer.text

    def _files(self) -> set[Path]:
        return set(self._warehouse.rglob("*"))


@pytest.fixture(scope="module")
def client(shared: Service) -> Generator[Client]:
    made = Client(shared)
    yield made
    assert made._http.get(PATH).json()["metadata"] == made.metadata
    assert shared.lake.doctor().healthy


def schema(*fields: Json, **more: Any) -> Json:
    return {"type": "struct", "schema-id": 1, "fields": [*copy.deepcopy(COLUMNS), *fields], **more}


def add_schema(*fields: Json, **more: Any) -> Json:
    return {"action": "add-schema", "schema": schema(*fields, **more)}


def add_spec(spec_id: Any = 1, **more: Any) -> Json:
    one = {"source-id": 2, "field-id": 1000, "transform": "identity", "name": "n", **more}
    return {"action": "add-spec", "spec": {"spec-id": spec_id, "fields": [one]}}


def add_order(order_id: Any = 1, source: Any = 2) -> Json:
    one = {"source-id": source, "transform": "identity"}
    fields = [{**one, "direction": "asc", "null-order": "nulls-first"}]
    return {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": fields}}


def add_snapshot(**more: Any) -> Json:
    usual = {"snapshot-id": 7, "sequence-number": 2, "timestamp-ms": 1, "manifest-list": "m"}
    return {
        "action": "add-snapshot",
        "snapshot": {**usual, "summary": {"operation": "append"}, "schema-id": 0, **more},
    }


def set_ref(**more: Any) -> Json:
    usual = {"action": "set-snapshot-ref", "ref-name": "r", "type": "branch"}
    return {**usual, "snapshot-id": 1, **more}


LONGS = [2**63, 2**64 - 1, -5, True, "1", 1.0]
INTS = [2**31, *LONGS]
LAST_ADDED = "may be -1"
NUMBERS: dict[str, tuple[Callable[[Any], Json], list[Any]]] = {
    "snapshot.snapshot-id": (lambda v: add_snapshot(**{"snapshot-id": v}), LONGS),
    "snapshot.parent-snapshot-id": (lambda v: add_snapshot(**{"parent-snapshot-id": v}), LONGS),
    "snapshot.sequence-number": (lambda v: add_snapshot(**{"sequence-number": v}), LONGS),
    "snapshot.timestamp-ms": (lambda v: add_snapshot(**{"timestamp-ms": v}), [2**62, *LONGS]),
    "snapshot.schema-id": (lambda v: add_snapshot(**{"schema-id": v}), INTS),
    "snapshot-id": (lambda v: set_ref(**{"snapshot-id": v}), LONGS),
    "max-ref-age-ms": (lambda v: set_ref(**{"max-ref-age-ms": v}), LONGS),
    "snapshot-ids": (lambda v: {"action": "remove-snapshots", "snapshot-ids": [v]}, LONGS),
    "schema-ids": (lambda v: {"action": "remove-schemas", "schema-ids": [v]}, INTS),
    "spec-ids": (lambda v: {"action": "remove-partition-specs", "spec-ids": [v]}, INTS),
    "schema-id": (lambda v: {"action": "set-current-schema", "schema-id": v}, INTS),
    "spec-id": (lambda v: {"action": "set-default-spec", "spec-id": v}, INTS),
    "sort-order-id": (lambda v: {"action": "set-default-sort-order", "sort-order-id": v}, INTS),
    "format-version": (lambda v: {"action": "upgrade-format-version", "format-version": v}, INTS),
    "last-column-id": (lambda v: {**add_schema(), "last-column-id": v}, INTS),
    "schema.schema-id": (lambda v: add_schema(**{"schema-id": v}), [-1, *INTS]),
    "schema.identifier-field-ids": (lambda v: add_schema(**{"identifier-field-ids": [v]}), INTS),
    f"{NEW}.id": (lambda v: add_schema(field(v, "new", "int")), [2**31 - 200, *INTS]),
    f"{NEW}.type.element-id": (lambda v: add_schema(field(20, "new", list_of(v))), INTS),
    f"{NEW}.type.key-id": (lambda v: add_schema(field(20, "new", map_of(v, 21))), INTS),
    f"{NEW}.type.value-id": (lambda v: add_schema(field(20, "new", map_of(21, v))), INTS),
    "spec.spec-id": (add_spec, INTS),
    "spec.fields[0].source-id": (lambda v: add_spec(**{"source-id": v}), INTS),
    "spec.fields[0].field-id": (lambda v: add_spec(**{"field-id": v}), INTS),
    "sort-order.order-id": (add_order, INTS),
    "sort-order.fields[0].source-id": (lambda v: add_order(source=v), INTS),
}


@pytest.mark.parametrize("place", NUMBERS)
def test_numbers_of_a_commit_are_integers_of_their_range(client: Client, place: str) -> None:
    update, values = NUMBERS[place]
    for value in values:
        # The first update is harmless: the message says which one is meant.
        message = client.refused_updates({"action": "set-properties", "updates": {}}, update(value))
        assert f"`updates[1].{place}` of the request is" in message, (value, message)


CREATIONS: dict[str, Callable[[Any], Json]] = {
    f"{NEW}.id": lambda v: {"schema": schema(field(v, "new", "int"))},
    "partition-spec.fields[0].source-id": lambda v: {
        "schema": schema(),
        "partition-spec": add_spec(**{"source-id": v})["spec"],
    },
    "write-order.order-id": lambda v: {
        "schema": schema(),
        "write-order": add_order(v)["sort-order"],
    },
}


@pytest.mark.parametrize("place", CREATIONS)
def test_numbers_of_a_creation_are_integers_of_their_range(client: Client, place: str) -> None:
    for value in INTS:
        for staged in (True, False):
            body = {"name": "new", "stage-create": staged, **CREATIONS[place](value)}
            message = client.refused(TABLES, body)
            assert f"`{place}` of the request is" in message, (value, message)


def test_a_snapshot_has_a_schema_of_the_table(client: Client) -> None:
    added = add_snapshot(**{"schema-id": 9, "manifest-list": _newest(client)["manifest-list"]})

    message = client.refused_updates(added, set_ref(**{"snapshot-id": 7}))

    assert "schema-id 9" in message


def test_the_last_column_id_never_falls(own: Service) -> None:
    """Clients in Java name the highest id of the new schema: lower, if they drop that column."""
    client = Client(own)
    before = client.metadata["last-column-id"]
    fields = [f for f in COLUMNS if f["id"] < 8]

    client.taken({**add_schema(fields=fields), "last-column-id": 7}, SET_SCHEMA)

    assert client.table.schema.names == [f["name"] for f in fields]
    assert client._http.get(PATH).json()["metadata"]["last-column-id"] == before


SET_SCHEMA = {"action": "set-current-schema", "schema-id": -1}
CLUMSY: dict[str, Json] = {
    "properties in a list": {"action": "set-properties", "updates": []},
    "properties of a text": {"action": "set-properties", "updates": "a"},
    "no statistics": {"action": "set-statistics"},
    "an order by a number": {
        "action": "add-sort-order",
        "sort-order": {"order-id": 1, "fields": [1]},
    },
}


@pytest.mark.parametrize("case", CLUMSY)
def test_updates_of_another_form_are_refused(client: Client, case: str) -> None:
    assert "REST protocol" in client.refused_updates(CLUMSY[case])


MALFORMED: dict[str, Json] = {
    "fields": {"schema": struct(field(1, "a", {"type": "struct"}))},
    "element": {"schema": struct(field(1, "a", {"type": "list", "element-id": 2}))},
    "element-required": {
        "schema": struct(field(1, "a", {"type": "list", "element-id": 2, "element": "int"}))
    },
    "source-id": {
        "schema": struct(field(1, "a", "int")),
        "partition-spec": {
            "fields": [{"source_id": 1, "field-id": 1, "transform": "identity", "name": "a"}]
        },
    },
}


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("missing", MALFORMED)
def test_creations_of_another_form_are_refused(client: Client, missing: str, staged: bool) -> None:
    body = {"name": "new", "stage-create": staged, **MALFORMED[missing]}

    assert missing.partition("-")[0] in client.refused(TABLES, body)


def changed(number: int, **more: Any) -> Json:
    """The update that changes one of the columns."""
    fields = [{**one, **more} if one["id"] == number else one for one in COLUMNS]
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": fields}}


AMBIGUOUS: dict[str, tuple[Json, str]] = {
    "an id twice": (add_schema(field(2, "new", "int")), "n and new have the same `id` 2"),
    "an id of a part": (add_schema(field(11, "new", "int")), "point.a and new"),
    "a name twice": (add_schema(field(20, "n", "int")), "multiple fields for name n"),
    "a name twice inside": (
        changed(8, type=struct(*INNER, field(20, "a", "int"))),
        "multiple fields for name point.a",
    ),
    "no name": (add_schema(field(20, "", "int")), "`id` 20 has no `name`"),
    "no name inside": (changed(8, type=struct(*INNER, field(20, "", "int"))), "`id` 20"),
    **{
        f"identifiers {ids}": (add_schema(**{"identifier-field-ids": ids}), said)
        for ids, said in (
            ([1, 1], "`identifier-field-ids` [1, 1]"),
            ([99], "99"),
            ([2], "Identifier field 2 invalid: not a required field"),
            ([7], "Identifier field 7 invalid: must not be float or double"),
            ([8], "Identifier field 8 invalid: not a primitive type"),
            ([13], "13"),
        )
    },
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_schemas_are_unambiguous(client: Client, case: str) -> None:
    update, said = AMBIGUOUS[case]

    assert said in client.refused_updates(update)
    for staged in (True, False):
        body = {"name": "new", "stage-create": staged, "schema": update["schema"]}
        assert said in client.refused(TABLES, body)


UNREADABLE: dict[str, tuple[Json, str]] = {
    **{
        f"{number} becomes {kind if isinstance(kind, str) else kind['type']}": (
            changed(number, type=kind),
            "cannot become",
        )
        for number, kind in (
            (1, "int"),
            (2, "string"),
            (2, "double"),
            (2, struct(field(20, "a", "int"))),
            (3, "int"),
            (4, "decimal(8, 2)"),
            (4, "decimal(12, 3)"),
            (4, "double"),
            (5, "binary"),
            (5, "uuid"),
            (6, "timestamp"),
            (8, "string"),
            (8, list_of(20)),
        )
    },
    "an inner column": (
        changed(8, type=struct(INNER[0], field(12, "b", "string"))),
        "Column point.b with the `id` 12 cannot become string",
    ),
    "a column moves": (
        add_schema(fields=[*COLUMNS[:7], field(12, "b", "int"), *COLUMNS[8:]]),
        "Column point.b with the `id` 12 cannot move to b",
    ),
    "an element": (changed(9, type=list_of(13, "int")), "Column tags.element"),
    "a value": (changed(10, type=map_of(14, 15, "string")), "Column m.value"),
    "a new required column": (
        add_schema(field(20, "new", "int", required=True)),
        "The new column new is required",
    ),
    "a new required column inside": (
        changed(8, type=struct(*INNER, field(20, "c", "int", required=True))),
        "The new column point.c is required",
    ),
    "a column becomes required": (changed(2, required=True), "Column n cannot become required"),
    "an inner column becomes required": (
        changed(8, type=struct(INNER[0], field(12, "b", "int", required=True))),
        "Column point.b cannot become required",
    ),
    "an element becomes required": (
        changed(9, type=list_of(13, "string", required=True)),
        "Column tags.element cannot become required",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_rows_that_exist_fit_new_schemas(client: Client, case: str) -> None:
    update, said = UNREADABLE[case]

    assert said in client.refused_updates(update, SET_SCHEMA)
    assert said in client.refused_updates(update)


def test_a_column_that_was_dropped_comes_back_with_its_type(own: Service) -> None:
    client = Client(own)
    client.taken(dropped := _without(2), SET_SCHEMA)
    fields = dropped["schema"]["fields"]

    for kind, required in (("string", False), ("int", True)):
        again = add_schema(fields=[*fields, field(2, "n", kind, required=required)])
        assert "olumn n" in client.refused_updates(again, SET_SCHEMA)
    client.taken({"action": "set-current-schema", "schema-id": 0})

    assert client.table.to_arrow()["n"].to_pylist() == [1]


def test_changes_that_rows_fit_are_taken(own: Service) -> None:
    client = Client(own)
    wider = {2: "long", 3: "double", 4: "decimal(12, 2)"}
    fields = [{**f, "type": wider.get(f["id"], f["type"])} for f in COLUMNS]
    fields[6] = field(7, "x", "double")
    fields[7] = field(8, "point", struct(INNER[0], field(12, "b", "long"), field(20, "c", "int")))
    fields += [
        field(21, "new", "int"),
        field(22, "filled", "int", required=True, **{"initial-default": 1, "write-default": 1}),
    ]

    client.taken({"action": "upgrade-format-version", "format-version": 3})
    client.taken(add_schema(fields=fields), SET_SCHEMA)

    (row,) = client.table.to_arrow().to_pylist()
    assert (row["n"], row["x"], row["point"]) == (1, 0.5, {"a": 0.5, "b": 1, "c": None})
    assert (row["new"], row["filled"]) == (None, 1)
    assert own.lake.doctor().healthy


def test_a_table_that_is_emptied_by_the_commit_gets_any_schema(own: Service) -> None:
    client = Client(own)
    emptied = {"action": "remove-snapshot-ref", "ref-name": "main"}
    again = set_ref(**{"ref-name": "main", "snapshot-id": _newest(client)["snapshot-id"]})
    new = changed(2, type="string", required=True)

    assert "cannot become" in client.refused_updates(emptied, new, SET_SCHEMA, again)
    client.taken(emptied, new, SET_SCHEMA)

    assert client.table.count() == 0
    assert own.lake.doctor().healthy


def test_a_table_that_was_emptied_before_gets_any_schema(own: Service) -> None:
    client = Client(own)
    client.taken({"action": "remove-snapshot-ref", "ref-name": "main"})
    again = set_ref(**{"ref-name": "main", "snapshot-id": _newest(client)["snapshot-id"]})
    new = changed(2, type="string", required=True)

    assert "cannot become" in client.refused_updates(new, SET_SCHEMA, again)
    client.taken(new, SET_SCHEMA)

    assert client.table.to_arrow().schema.field("n").type == pa.string()
    assert own.lake.doctor().healthy


def test_names_may_end_with_a_dot(own: Service) -> None:
    client = Client(own)
    inner = struct(*INNER, field(20, "No.", "int"))
    fields = [*COLUMNS, field(21, "No.", "int")]
    fields[7] = field(8, "point", inner)

    client.taken(add_schema(fields=fields), SET_SCHEMA)
    client.table.append([{**ROW, "No.": 5, "point": {"a": 0.5, "b": 1, "No.": 6}}])

    found = client.table.to_arrow().to_pylist()
    assert [row["No."] for row in found] == [None, 5]
    assert [row["point"]["No."] for row in found] == [None, 6]
    assert own.lake.doctor().healthy


@pytest.mark.parametrize("left_out", [{}, {"field-id": None}])
def test_partition_fields_without_ids_get_them(own: Service, left_out: Json) -> None:
    client = Client(own)
    one = {"source-id": 1, "transform": "identity", "name": "n", **left_out}
    spec = {**dict.fromkeys(["spec-id"] if left_out else ()), "fields": [one]}
    columns = struct(field(1, "n", "int"), field(2, "m", "int"))

    made = client._http.post(
        TABLES, json={"name": "new", "schema": columns, "partition-spec": spec}
    )
    assert made.status_code == 200, made.text
    again = {**spec, "fields": [one, {**one, "source-id": 2, "name": "m"}]}
    updates = [{"action": "add-spec", "spec": again}, {"action": "set-default-spec", "spec-id": -1}]
    done = client._http.post(f"{TABLES}/new", json={"updates": updates, "requirements": []})
    assert done.status_code == 200, done.text

    specs = done.json()["metadata"]["partition-specs"]
    assert [[f["field-id"] for f in one["fields"]] for one in specs] == [[1000], [1001, 1002]]
    own.lake.table("sales.new").append([{"n": 1, "m": 2}])
    assert own.lake.doctor().healthy


def _without(number: int) -> Json:
    fields = [one for one in COLUMNS if one["id"] != number]
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": fields}}


def _newest(client: Client) -> Json:
    found: Json = client.metadata["snapshots"][-1]
    return found
