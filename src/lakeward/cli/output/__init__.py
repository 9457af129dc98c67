"""What commands answer, as text and as JSON."""
