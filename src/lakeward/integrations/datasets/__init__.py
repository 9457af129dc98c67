"""Datasets: named locations of rows with options to read and write, from code or a file."""

from __future__ import annotations

from lakeward.engines.arrow.file_access import ReadOptions
from lakeward.integrations.datasets.dataset import Dataset
from lakeward.integrations.datasets.location import DatasetLocation, ScanOptions
from lakeward.integrations.datasets.registry import Datasets
from lakeward.integrations.writing import WriteOptions

__all__ = ["Dataset", "DatasetLocation", "Datasets", "ReadOptions", "ScanOptions", "WriteOptions"]
