-- Files of knowledge that are not UTF-8 were indexed with `�` in place of what they say. Their time and size are as
-- they were, so each file is read once more; pieces change only where its text does.
UPDATE knowledge_files SET modified_ms = 0;
