//! What refuses a move, before anything is changed.

use super::error::PersonaMoveError;
use crate::config::{KeptFiles, NameCatalog, load_staged_without_secrets};
use crate::domain::PersonaId;
use crate::store::db::{self, Connection, Sql};
use crate::store::persona_tables::PERSONA_TABLES;
use std::path::{Path, PathBuf};

/// What an engine that died has left in hand; and summaries that have begun, which name letters by number in a packed record.
pub(in crate::store) const IN_HAND: &str = "
    SELECT 'run ' || id AS what FROM runs WHERE persona_id = $1 AND state = 'running'
    UNION ALL SELECT 'mail ' || id FROM deliveries WHERE persona_id = $1 AND state IN ('sending', 'committing')
    UNION ALL SELECT 'fork ' || id FROM forks WHERE persona_id = $1 AND state = 'running'
    UNION ALL SELECT 'call for vectors ' || id FROM embedding_calls WHERE persona_id = $1 AND state = 'open'
    UNION ALL SELECT 'call of run ' || b.run_id FROM budget_reservations b JOIN runs r ON r.id = b.run_id WHERE r.persona_id = $1
    UNION ALL SELECT 'summary ' || r.id FROM runs r WHERE r.persona_id = $1 AND r.trigger = 'summary'
      AND r.state IN ('queued', 'waiting_approval', 'waiting_retry') AND EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id)";
pub(in crate::store) const ERASURE_OPEN: &str =
    "SELECT EXISTS (SELECT 1 FROM erasures WHERE state <> 'done')";

/// Returns the folder of a persona.
pub(super) fn folder_of(workspace: &Path, persona: &PersonaId) -> PathBuf {
    workspace.join("personas").join(persona.as_str())
}

/// Errors: [`PersonaMoveError::Unknown`].
pub(super) fn require_folder(
    workspace: &Path,
    persona: &PersonaId,
) -> Result<(), PersonaMoveError> {
    match folder_of(workspace, persona).is_dir() {
        true => Ok(()),
        false => Err(PersonaMoveError::Unknown {
            persona: persona.to_string(),
            place: workspace.display().to_string(),
        }),
    }
}

/// Errors: [`PersonaMoveError::InHand`], [`PersonaMoveError::ErasureOpen`].
pub(super) async fn require_at_rest(
    conn: &mut Connection,
    persona: &PersonaId,
) -> Result<(), PersonaMoveError> {
    let in_hand = db::query_scalar::<String>(IN_HAND).bind(persona.as_str());
    let what = in_hand.fetch_all(&mut *conn).await?;
    if !what.is_empty() {
        return Err(PersonaMoveError::InHand { what });
    }
    let is_open = db::query_scalar::<bool>(ERASURE_OPEN);
    match is_open.fetch_one(conn).await? {
        true => Err(PersonaMoveError::ErasureOpen),
        false => Ok(()),
    }
}

/// Errors: [`PersonaMoveError::Exists`] for a folder.
pub(super) fn require_no_folder(
    workspace: &Path,
    persona: &PersonaId,
) -> Result<(), PersonaMoveError> {
    let folder = folder_of(workspace, persona);
    match folder.symlink_metadata().is_ok() {
        true => Err(PersonaMoveError::Exists {
            persona: persona.to_string(),
            what: format!("`{}`", folder.display()),
        }),
        false => Ok(()),
    }
}

/// Errors: [`PersonaMoveError::Exists`] for rows.
pub(super) async fn require_no_rows(
    conn: &mut Connection,
    persona: &PersonaId,
) -> Result<(), PersonaMoveError> {
    for table in PERSONA_TABLES {
        let any = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE {})",
            table.name, table.whose
        );
        let any = db::query_scalar::<bool>(Sql::built(any)).bind(persona.as_str());
        if any.fetch_one(&mut *conn).await? {
            return Err(PersonaMoveError::Exists {
                persona: persona.to_string(),
                what: format!("rows in `{}`", table.name),
            });
        }
    }
    Ok(())
}

/// Checks that the target's configuration is good with the persona: nobody else has its addresses, and what its file names is
/// there.
///
/// Errors: [`PersonaMoveError::Config`].
pub(super) fn require_config(
    (from, to): (&Path, &Path),
    persona: &PersonaId,
    names: &NameCatalog,
) -> Result<(), PersonaMoveError> {
    let folder = folder_of(from, persona);
    let mut staged = KeptFiles::new();
    for file in ["persona.json", "policy.json"] {
        let path = folder.join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let name = format!("personas/{persona}/{file}");
                staged.insert(name, Some(text.into()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(PersonaMoveError::at(&path, source)),
        }
    }
    let problems: Vec<String> = match load_staged_without_secrets(to, names, &staged) {
        Err(errors) => errors.problems.iter().map(ToString::to_string).collect(),
        Ok(config) => {
            let out = config.personas.out_of_service().iter();
            let out = out.filter(|out| out.name == persona.as_str());
            let problems = out.flat_map(|out| out.problems.iter());
            problems.map(ToString::to_string).collect()
        }
    };
    match problems.is_empty() {
        true => Ok(()),
        false => Err(PersonaMoveError::Config { problems }),
    }
}
