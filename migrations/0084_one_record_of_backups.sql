-- The newest backup by hand had a row of its own beside those of `backups`.
INSERT INTO backups (started_at, finished_at, is_scheduled, path)
SELECT m.at, m.at, 0, m.detail FROM maintenance m
WHERE m.kind = 'backup' AND NOT EXISTS (SELECT 1 FROM backups b
  WHERE b.path = m.detail OR (b.started_at >= m.at AND b.finished_at IS NOT NULL AND b.failure IS NULL));
DELETE FROM maintenance WHERE kind = 'backup';
