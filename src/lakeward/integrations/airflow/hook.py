"""The connection of Airflow to a lake."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import BaseHook

import lakeward as lw

DEFAULT: Final = "lakeward_default"


class LakewardHook(BaseHook):
    """Opens the lake of a connection of the type `lakeward`.

    The connection's extra has `lake`, a directory or the address of a PostgreSQL database, and
    where needed `warehouse` and `storage_options`. Its password, if it has one, goes into the
    address in the place of `{password}`.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT
    conn_type = "lakeward"
    hook_name = "Lakeward"

    def __init__(self, lake_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.lake_conn_id = lake_conn_id

    def get_conn(self) -> lw.Lake:
        """Open the lake; close it after use, or use it in `with`."""
        connection = self.get_connection(self.lake_conn_id)
        extra: dict[str, Any] = connection.extra_dejson
        place = str(extra["lake"])
        if connection.password:
            place = place.replace("{password}", connection.password)
        options = {name: extra[name] for name in ("warehouse", "storage_options") if name in extra}
        return lw.open(place, **options)
