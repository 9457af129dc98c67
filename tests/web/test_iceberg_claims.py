"""What REST clients claim of the data files that they add is compared with the files' footers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.types import LongType, NestedField, StringType

import lakeward as lw
from tests.support.foreign_files import add_file, data_file, numbered
from tests.support.rest import catalog_of
from tests.support.service import Service

FIELDS = [
    numbered("id", pa.int64(), 1),
    numbered("region", pa.string(), 2),
    numbered("amount", pa.float64(), 3),
]
ROWS = pa.table([[1, 2, 3], ["eu"] * 3, [1.0, None, 3.0]], schema=pa.schema(FIELDS))
FALSE: dict[str, tuple[Mapping[str, Any], str]] = {
    "no such file": ({"file_path": "{location}/data/none.parquet"}, "none.parquet is missing"),
    "not Parquet": ({"file_path": "{location}/metadata/version-hint.text"}, "is not Parquet"),
    "too many rows": ({"record_count": 4}, "has 4 rows; its footer says 3"),
    "too few rows": ({"record_count": 2}, "has 2 rows; its footer says 3"),
    "no rows": ({"record_count": 0}, "has 0 rows; its footer says 3"),
    "another size": ({"file_size_in_bytes": 1}, "has 1 bytes; it has "),
}


@dataclass
class Facts:
    """A table that no commit of these tests changes, as its clients see it."""

    service: Service
    table: Table

    def file(self, claims: Mapping[str, Any]) -> Any:
        place = self.table.location()
        filled = {
            k: v.replace("{location}", place) if isinstance(v, str) else v
            for k, v in claims.items()
        }
        return data_file(self.table, ROWS, partition=["eu"], claims=filled)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Facts]:
    directory: Path = tmp_path_factory.mktemp("claims") / "lake"
    with lw.open(directory) as lake, Service(lake, anonymous=None) as service:
        columns = "id int64, region string, amount float64"
        lake.create("sales.facts", columns, format="iceberg", partition_by=["region"])
        yield Facts(service, catalog_of(service, "writer").load_table("sales.facts"))


@pytest.mark.parametrize("case", FALSE)
def test_a_false_claim_is_refused(facts: Facts, case: str) -> None:
    claims, message = FALSE[case]
    file = facts.file(claims)

    with pytest.raises(BadRequestError, match=message) as caught, facts.table.transaction() as tx:
        add_file(tx, file)

    assert str(file.file_path).rpartition("/")[2] in str(caught.value)
    assert facts.service.lake.table("sales.facts").version == 0


def test_a_false_claim_beside_a_changed_definition_is_refused(facts: Facts) -> None:
    tx = Transaction(facts.table)
    with tx.update_schema() as update:
        update.add_column("note", StringType())
    add_file(tx, facts.file({"record_count": 2}))

    with pytest.raises(BadRequestError, match="its footer says 3"):
        tx.commit_transaction()

    assert facts.service.lake.table("sales.facts").version == 0


def test_a_false_claim_with_a_new_table_is_refused(facts: Facts) -> None:
    catalog = catalog_of(facts.service)
    tx = catalog.create_table_transaction("sales.new", Schema(NestedField(1, "n", LongType())))
    rows = pa.table([[1]], schema=pa.schema([numbered("n", pa.int64(), 1)]))
    add_file(tx, data_file(tx._table, rows, claims={"record_count": 2}))

    with pytest.raises(BadRequestError, match="has 2 rows; its footer says 1"):
        tx.commit_transaction()

    assert not catalog.table_exists("sales.new")
