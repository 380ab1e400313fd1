"""Numbers about the structure of the code, with their bounds: ``make house`` prints them."""
