-- How the way out is, so that people see why nothing moves, and so that the owner is told once.
CREATE TABLE transport_health (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  state TEXT NOT NULL CHECK (state IN ('well', 'unreachable', 'auth_failed')),
  since TEXT NOT NULL,              -- when it entered this state
  reason TEXT NOT NULL DEFAULT '',  -- the server's words, or ours when it said nothing
  next_probe_at TEXT                -- NULL when well
) STRICT;
