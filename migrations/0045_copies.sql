-- One row in a database that is a backup: an engine that works on it knows that time has passed elsewhere.
CREATE TABLE database_copies (
  id INTEGER PRIMARY KEY CHECK (id = 1)
) STRICT;
