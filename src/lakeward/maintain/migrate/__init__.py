"""Migration: creates tables from directories of Parquet files and from external tables."""
