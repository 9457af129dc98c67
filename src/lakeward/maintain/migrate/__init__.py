"""Migration: makes tables from directories of Parquet files and from external tables."""
