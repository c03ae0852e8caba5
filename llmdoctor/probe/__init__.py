"""One request over the wire: what came when, read as the API dialect means it."""
