-- Events that a persona knows: invitations by provable organisers, and its own. One row an instance that differs.
CREATE TABLE events (
  persona_id TEXT NOT NULL,
  uid TEXT NOT NULL,
  organizer TEXT NOT NULL,          -- key of its address; the persona's own for its own events
  recurrence_id TEXT NOT NULL,      -- '': the event itself, else the instance
  sequence INTEGER NOT NULL,
  stamped_at TEXT NOT NULL,         -- DTSTAMP of the newest version
  is_cancelled INTEGER NOT NULL,
  answer TEXT,                      -- of the persona: ACCEPTED, DECLINED, TENTATIVE
  starts_at TEXT,                   -- first start; NULL: a whole day, or a time without a known zone
  ends_at TEXT,                     -- last end that was computed
  event_json TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id),  -- that made it as it is
  updated_at TEXT NOT NULL,
  PRIMARY KEY (persona_id, uid, organizer, recurrence_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_end ON events (persona_id, ends_at, starts_at);
