-- What comes back for a mail. Its envelope sender has a token that nobody else can know, so that a letter to that
-- address can only come from a system that had the mail.
ALTER TABLE deliveries ADD COLUMN bounce_token TEXT;
CREATE UNIQUE INDEX deliveries_by_bounce_token ON deliveries (bounce_token) WHERE bounce_token IS NOT NULL;

-- The recipient failed by a report that came back, not by what the smarthost answered.
ALTER TABLE delivery_recipients ADD COLUMN bounced_at TEXT;

CREATE TABLE delivery_reports (
  seq INTEGER PRIMARY KEY,
  delivery_id TEXT NOT NULL REFERENCES deliveries (id),
  persona_id TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id), -- the letter that reports
  recipient TEXT NOT NULL,          -- as the delivery has it; as reported when it is none of the delivery's
  kind TEXT NOT NULL,               -- delivery_status | feedback | disposition
  action TEXT NOT NULL,             -- of RFC 3464, or none
  reason TEXT NOT NULL,
  status TEXT,                      -- enhanced status code
  code INTEGER,                     -- reply code
  diagnostic TEXT NOT NULL,
  is_hard INTEGER NOT NULL,
  believed INTEGER NOT NULL,        -- it came with the delivery's token; others change nothing
  changed INTEGER NOT NULL,         -- it changed the recipient's state
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX delivery_reports_by_delivery ON delivery_reports (delivery_id, seq);
