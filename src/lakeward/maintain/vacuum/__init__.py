"""Vacuum: deletes files that, according to the log, nobody needs."""

from __future__ import annotations
