"""Files of a warehouse: the contract (`base`), the local disk (`local`) and object stores."""
