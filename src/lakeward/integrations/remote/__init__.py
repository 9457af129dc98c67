"""A client for reading a lake through its service: `lw.connect("https://…", token="lkw_…")`.

It has the nouns of a lake: tables at any version, history, changed rows, cuts over all tables, SQL.
Errors of the service are raised as the errors that a lake raises.
"""

from lakeward.integrations.remote.answers import Answer
from lakeward.integrations.remote.lake import RemoteLake
from lakeward.integrations.remote.snapshot import RemoteSnapshot
from lakeward.integrations.remote.table import RemoteTable

__all__ = ["Answer", "RemoteLake", "RemoteSnapshot", "RemoteTable"]
