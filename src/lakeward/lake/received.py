"""Rows that a client sent in the body of a request, for the service."""

from __future__ import annotations

from lakeward.engines.arrow.received import Limits as Limits
from lakeward.engines.arrow.received import read_received as read_received
from lakeward.engines.arrow.too_large import TooLarge as TooLarge
