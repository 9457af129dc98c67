"""The Airflow hook that opens a lake."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import BaseHook

import lakeward as lw

DEFAULT: Final = "lakeward_default"


class LakewardHook(BaseHook):
    """Opens the lake of a connection of the type `lakeward`.

    The connection's extra has `lake`, a directory or the URL of a PostgreSQL database, and
    where needed `warehouse` and `storage_options`. If the connection has a password, it replaces
    `{password}` in the URL.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT
    conn_type = "lakeward"
    hook_name = "Lakeward"

    def __init__(self, lake_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.lake_conn_id = lake_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return hidden fields, labels and placeholders of Airflow's form for a connection."""
        return {
            "hidden_fields": ["host", "schema", "port", "login"],
            "relabeling": {"password": "Password, in the place of {password}"},
            "placeholders": {"extra": '{"lake": "/data/lake"}'},
        }

    def test_connection(self) -> tuple[bool, str]:
        """Open the lake; return whether that succeeded, and a message."""
        try:
            with self.get_conn() as lake:
                count = len(lake.tables())
        except (lw.errors.LakewardError, KeyError) as error:
            return False, f"{type(error).__name__}: {error}"
        return True, f"The lake has {count} tables."

    def get_conn(self) -> lw.Lake:
        """Open the lake; close it after use, or use it in `with`."""
        connection = self.get_connection(self.lake_conn_id)
        extra: dict[str, Any] = connection.extra_dejson
        place = str(extra["lake"])
        if connection.password:
            place = place.replace("{password}", connection.password)
        options = {name: extra[name] for name in ("warehouse", "storage_options") if name in extra}
        return lw.open(place, **options)
