-- Addresses that belong to the person of another address, as the owner has said.
CREATE TABLE contact_aliases (
  address TEXT PRIMARY KEY,         -- key of the address
  person TEXT NOT NULL,             -- key of the address under which the person's entries of memory stand; never itself an alias
  since TEXT NOT NULL,
  said_by TEXT NOT NULL             -- user
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_aliases_by_person ON contact_aliases (person);
