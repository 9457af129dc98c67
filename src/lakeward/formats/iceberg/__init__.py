"""How Apache Iceberg spells a table: metadata documents, manifests, and its catalog's pointer."""
