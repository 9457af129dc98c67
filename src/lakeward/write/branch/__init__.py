"""Working copies of tables, which engines write; one commit then takes over the changes."""
