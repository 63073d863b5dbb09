//! What a move would take along, and what would refuse it. Nothing is written, and engines may run meanwhile.

use super::cell::{absolute, connect_to_read, require_two};
use super::checks::{
    folder_of, require_at_rest, require_config, require_folder, require_no_folder, require_no_rows,
};
use super::error::PersonaMoveError;
use super::folder::{FolderSize, size_of};
use crate::config::NameCatalog;
use crate::domain::PersonaId;
use crate::store::db::{self, Connection, Sql};
use crate::store::persona_tables::PERSONA_TABLES;
use serde::Serialize;
use std::path::Path;

pub(in crate::store) const MAIL_SIZE: &str = "
    SELECT (SELECT count(*) FROM messages WHERE persona_id = $1 AND direction <> 'synthetic') AS mails,
      (SELECT coalesce(sum(coalesce(object_bytes, octet_length(bytes))), 0) FROM raw_letters WHERE persona_id = $1)
        + (SELECT coalesce(sum(octet_length(bytes)), 0) FROM deliveries WHERE persona_id = $1) AS mail_bytes";

/// Rows of a table that would go along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableCount {
    pub table: &'static str,
    pub rows: u64,
}

/// What a move would do.
#[derive(Debug, Clone, Serialize)]
pub struct PersonaMovePreview {
    pub persona: String,
    pub from: String,
    pub to: String,
    /// Tables with rows of the persona.
    pub tables: Vec<TableCount>,
    pub rows: u64,
    pub mails: u64,
    pub mail_bytes: u64,
    pub folder: FolderSize,
    /// Reasons why the move would be refused.
    pub refusals: Vec<String>,
}

impl PersonaMovePreview {
    /// Reads both cells.
    ///
    /// Errors: those of reading; what would refuse the move is in the result.
    pub async fn read(
        (from, to): (&Path, &Path),
        persona: &PersonaId,
        names: &NameCatalog,
    ) -> Result<Self, PersonaMoveError> {
        let (from, to) = (absolute(from)?, absolute(to)?);
        require_two(&from, &to)?;
        require_folder(&from, persona)?;
        let mut preview = Self {
            persona: persona.to_string(),
            from: from.display().to_string(),
            to: to.display().to_string(),
            tables: Vec::new(),
            rows: 0,
            mails: 0,
            mail_bytes: 0,
            folder: size_of(&folder_of(&from, persona))?.0,
            refusals: Vec::new(),
        };
        if let Some(mut source) = connect_to_read(&from).await? {
            preview.count(&mut source, persona).await?;
            preview.add(require_at_rest(&mut source, persona).await)?;
        }
        preview.add(require_no_folder(&to, persona))?;
        if let Some(mut target) = connect_to_read(&to).await? {
            preview.add(require_no_rows(&mut target, persona).await)?;
        }
        preview.add(require_config((&from, &to), persona, names))?;
        Ok(preview)
    }

    fn add(&mut self, checked: Result<(), PersonaMoveError>) -> Result<(), PersonaMoveError> {
        match checked {
            Err(error @ (PersonaMoveError::Rows(_) | PersonaMoveError::Folder { .. })) => {
                Err(error)
            }
            Err(refusal) => {
                self.refusals.push(refusal.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    async fn count(
        &mut self,
        source: &mut Connection,
        persona: &PersonaId,
    ) -> Result<(), db::Error> {
        for table in PERSONA_TABLES {
            let count = format!("SELECT count(*) FROM {} WHERE {}", table.name, table.whose);
            let count = db::query_scalar::<i64>(Sql::built(count)).bind(persona.as_str());
            let rows = count.fetch_one(&mut *source).await?.unsigned_abs();
            if rows > 0 {
                let table = table.name;
                self.tables.push(TableCount { table, rows });
            }
            self.rows += rows;
        }
        let size = db::query(MAIL_SIZE).bind(persona.as_str());
        let size = size.fetch_one(source).await?;
        self.mails = size.try_get::<i64>("mails")?.unsigned_abs();
        self.mail_bytes = size.try_get::<i64>("mail_bytes")?.unsigned_abs();
        Ok(())
    }
}
