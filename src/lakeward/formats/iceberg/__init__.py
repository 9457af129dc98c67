"""Apache Iceberg: metadata documents, manifests, and the pointer in the catalog."""
