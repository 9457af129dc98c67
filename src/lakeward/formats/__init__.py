"""How Delta spells the log's neutral actions; siblings never import each other."""
