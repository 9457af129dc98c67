"""Working copies of tables that engines write before one commit takes their result."""
