"""The Iceberg REST catalog under `/iceberg/v1`."""
