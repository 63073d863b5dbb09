-- Addresses of other programs that are told what happens: how far each has read the feed, and whether it is still asked.
CREATE TABLE webhooks (
  name TEXT PRIMARY KEY,
  through_seq INTEGER NOT NULL,     -- number of the feed's newest event that was looked at for it
  disabled_at TEXT,                 -- since when it is asked no more
  reason TEXT,                      -- why
  rests_until TEXT,                 -- asked again from then on, because its server is busy or away
  failures INTEGER NOT NULL DEFAULT 0,  -- failed attempts since the last success
  success_at TEXT                   -- when it last took an event
) STRICT;

-- One event for one webhook, with the exact body of every attempt.
CREATE TABLE webhook_deliveries (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,          -- `webhook-id` of every attempt
  webhook TEXT NOT NULL,
  seq INTEGER NOT NULL,             -- number of the event in the feed
  event TEXT NOT NULL,
  persona_id TEXT,
  body TEXT NOT NULL,
  state TEXT NOT NULL,              -- queued, done, failed
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT NOT NULL,
  status INTEGER,                   -- of HTTP, of the last attempt
  error TEXT,                       -- of the last attempt
  created_at TEXT NOT NULL,
  finished_at TEXT,
  UNIQUE (webhook, seq)
) STRICT;
CREATE INDEX webhook_deliveries_queued ON webhook_deliveries (webhook, next_attempt_at) WHERE state = 'queued';

-- Of those that are done or have failed, the newest ten thousand stay, whoever writes.
CREATE TRIGGER webhook_deliveries_are_bounded AFTER INSERT ON webhook_deliveries WHEN new.n % 1000 = 0 BEGIN
  DELETE FROM webhook_deliveries WHERE n <= new.n - 10000 AND state <> 'queued';
END;
