"""Tables created, adopted, cloned and dropped."""
