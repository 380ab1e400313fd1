"""The copies of a key: comparing and mending them, handing over to peers that join, publications redelivered."""
