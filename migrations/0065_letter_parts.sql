-- A second index of letters, of parts of words: pairs of Chinese, Japanese and Korean characters, and the ends of codes such
-- as 4711AB. The engine makes them (`text/word_parts.rs`) in the commit that stores a letter: a trigger names the letter here,
-- and the writer takes it from there before it commits (`store/search/letter_parts.rs`). Most letters have few parts or none.
CREATE TABLE letter_part_texts (
  seq INTEGER PRIMARY KEY,          -- of the message
  thread TEXT NOT NULL,             -- its thread as one word
  words TEXT NOT NULL               -- each part once, joined by blanks
) STRICT;
CREATE VIRTUAL TABLE letter_parts USING fts5(
  thread, words,
  content = 'letter_part_texts', content_rowid = 'seq', detail = 'column', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('usermerge', 8);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('automerge', 12);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER letter_part_texts_insert AFTER INSERT ON letter_part_texts BEGIN
  INSERT INTO letter_parts (rowid, thread, words) VALUES (new.seq, new.thread, new.words);
END;
CREATE TRIGGER letter_part_texts_delete AFTER DELETE ON letter_part_texts BEGIN
  INSERT INTO letter_parts (letter_parts, rowid, thread, words) VALUES ('delete', old.seq, old.thread, old.words);
END;

-- Letters whose parts are not made yet: empty between transactions of the engine.
CREATE TABLE letter_parts_pending (
  seq INTEGER PRIMARY KEY
) STRICT;
CREATE TRIGGER letter_parts_new AFTER INSERT ON messages
WHEN new.subject GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
  OR new.sender GLOB '*[ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
  OR coalesce(new.fresh_text, new.text_body) GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*' BEGIN
  INSERT OR IGNORE INTO letter_parts_pending (seq) VALUES (new.seq);
END;
CREATE TRIGGER letter_parts_changed AFTER UPDATE OF thread_id, subject, sender, text_body, fresh_text ON messages BEGIN
  INSERT OR IGNORE INTO letter_parts_pending (seq) VALUES (new.seq);
END;
CREATE TRIGGER letter_parts_gone AFTER DELETE ON messages BEGIN
  DELETE FROM letter_part_texts WHERE seq = old.seq;
  DELETE FROM letter_parts_pending WHERE seq = old.seq;
END;

-- Letters below this number may have no parts yet; without a row, all have theirs.
CREATE TABLE letter_parts_build (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  below INTEGER NOT NULL
) STRICT;
INSERT INTO letter_parts_build (id, below) SELECT 1, max(seq) + 1 FROM messages HAVING max(seq) IS NOT NULL;
