//! The token by which an object store knows the one database that deletes objects there (D-135).
//!
//! A copy of a database has its rows and its name, so each would delete the objects of the other's letters. The database
//! that deletes puts a token beside the objects, and notes it with the identity of its file or server; a copy has
//! another identity. Where the token is of another database, nothing is deleted there by either of them, until an operator
//! says which one is to (`attache objects claim`).

use super::room::owner_of;
use crate::objects::{ObjectClient, ObjectError, ObjectName};
use crate::store::db::{self, Pool, Scope};
use crate::store::sqlite::identity::{DATABASE_FILE, Inode};
use crate::store::{Result, Store, StoreError};
use std::path::Path;

/// Put in place of a token of another database, which sees it and stops deleting, too.
static DISPUTED: &str = "disputed";

pub(in crate::store) const IS_OWN_TOKEN: &str =
    "SELECT 1 FROM object_tokens WHERE token = $1 AND database = $2";
pub(in crate::store) const NOTE_TOKEN: &str =
    "INSERT INTO object_tokens (token, database) VALUES ($1, $2)";
/// Of tokens, which begin with their time, the latest are kept: a node that was frozen may put one of these again.
pub(in crate::store) const FORGET_TOKENS: &str = "
    DELETE FROM object_tokens WHERE token <> $1
      AND token NOT IN (SELECT token FROM object_tokens ORDER BY token DESC LIMIT 100)";

/// Gives the identity of a server, which its standbys share, and the number of the database there
/// (<https://www.postgresql.org/docs/15/functions-info.html>, `pg_control_system`).
pub(in crate::store) static DATABASE_ON_SERVER: &str = "
    SELECT s.system_identifier || '/' || d.oid FROM pg_control_system() s CROSS JOIN pg_database d
    WHERE d.datname = current_database()";

/// What the object store holds as the token of the database that deletes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenState {
    /// None was ever put there.
    Absent,
    Own,
    /// That of another database.
    Foreign,
    Disputed,
}

impl TokenState {
    fn allows_deletion(self) -> bool {
        matches!(self, Self::Absent | Self::Own)
    }
}

impl Store {
    /// Checks that this is the database that deletes in the object store, and puts a new token there, so that a copy which
    /// was made before does not have it. Does nothing where no object store is configured.
    ///
    /// Errors: [`ObjectError::NotHolder`], and those of the object store.
    pub async fn renew_object_token(&self) -> Result<()> {
        let Some(client) = self.objects().client()? else {
            return Ok(());
        };
        self.refuse_other_holder(client).await?;
        self.put_new_token(client).await
    }

    /// Reports whether another database has used the object store, and this one does not delete there.
    ///
    /// Errors: those of the object store.
    pub async fn is_not_object_holder(&self) -> Result<bool> {
        match self.objects().client()? {
            Some(client) => Ok(!self.token_state(client).await?.allows_deletion()),
            None => Ok(false),
        }
    }

    /// Makes this the database that deletes in the object store, whichever did before. Returns words for its place; `None`:
    /// no object store is configured.
    pub async fn claim_objects(&self) -> Result<Option<String>> {
        let Some(client) = self.objects().client()? else {
            return Ok(None);
        };
        self.put_new_token(client).await?;
        Ok(Some(client.place().to_owned()))
    }

    /// Checks that this is the database that deletes in the object store; one in which none ever deleted becomes its own.
    ///
    /// Errors: [`ObjectError::NotHolder`], and those of the object store.
    pub(in crate::store) async fn require_object_token(&self, client: &ObjectClient) -> Result<()> {
        match self.refuse_other_holder(client).await? {
            TokenState::Absent => self.put_new_token(client).await,
            _ => Ok(()),
        }
    }

    /// Marks the token of another database as disputed, so that neither deletes. Returns a state that allows it.
    ///
    /// Errors: [`ObjectError::NotHolder`], and those of the object store.
    async fn refuse_other_holder(&self, client: &ObjectClient) -> Result<TokenState> {
        let state = self.token_state(client).await?;
        if state == TokenState::Foreign {
            client.put(&self.token_name(), DISPUTED).await?;
        }
        match state.allows_deletion() {
            true => Ok(state),
            false => Err(not_holder(client)),
        }
    }

    async fn token_state(&self, client: &ObjectClient) -> Result<TokenState> {
        let Some(token) = client.read(&self.token_name()).await? else {
            return Ok(TokenState::Absent);
        };
        let token = String::from_utf8_lossy(&token);
        if token == DISPUTED {
            return Ok(TokenState::Disputed);
        }
        let own = db::query_scalar::<i64>(IS_OWN_TOKEN)
            .bind(&*token)
            .bind(self.database_identity().await?);
        Ok(match own.fetch_optional(self.readers()).await? {
            Some(_) => TokenState::Own,
            None => TokenState::Foreign,
        })
    }

    /// Notes a token before it is put, so that a crash between leaves one that is known.
    async fn put_new_token(&self, client: &ObjectClient) -> Result<()> {
        let (token, database) = (self.clock().new_id(), self.database_identity().await?);
        let noted = token.clone();
        self.write(Scope::Rows, move |conn| {
            Box::pin(async move {
                let note = db::query(NOTE_TOKEN).bind(&*noted).bind(database);
                note.execute(&mut *conn).await?;
                db::query(FORGET_TOKENS).bind(noted).execute(conn).await?;
                Ok(())
            })
        })
        .await?;
        crate::crash::crash_point!("OB4");
        Ok(client.put(&self.token_name(), token).await?)
    }

    /// Returns what a database has and a copy of it has not: the number of its file, or its server and its number there. A
    /// file that is moved within its file system keeps it, and so does a standby that is promoted.
    async fn database_identity(&self) -> Result<String> {
        let readers = self.readers();
        if matches!(readers, Pool::Postgres(_)) {
            return Ok(db::query_scalar(DATABASE_ON_SERVER)
                .fetch_one(readers)
                .await?);
        }
        let file: String = db::query_scalar(DATABASE_FILE).fetch_one(readers).await?;
        let inode = Inode::of(Path::new(&file)).map_err(|error| StoreError::Moved(error.into()))?;
        Ok(inode.number().to_string())
    }

    fn token_name(&self) -> ObjectName {
        ObjectName::of_row(format!("{}/token", owner_of(self.loop_key())))
    }
}

pub(super) fn not_holder(client: &ObjectClient) -> StoreError {
    let place = client.place().to_owned();
    ObjectError::NotHolder { place }.into()
}
