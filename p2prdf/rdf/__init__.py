"""RDF: terms, queries and the text forms of both."""
