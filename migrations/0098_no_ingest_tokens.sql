-- Mailgun's own form is not taken any more (D-148).
DROP TABLE ingest_tokens;
