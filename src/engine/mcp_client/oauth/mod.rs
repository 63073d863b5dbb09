//! Login at a server by OAuth, as the authorization part of the Model Context Protocol has it.
//!
//! In reading order:
//!
//! - `error`: why there is no login
//! - `metadata`: what the server and its authorization server say of themselves; pure
//! - `discovery`: fetches it, through the guard of the web
//! - `client`: the client of a login, named or registered; the token endpoint is in `web`
//! - `kept`: the login on the disk
//! - `attempt`: one login, from the question to the answer
//! - `callback`: the browser's answer on loopback
//! - `access`: the token of a request, renewed in time
//!
//! Absent on purpose: the browser and the terminal (`cli`). Nothing here follows a redirect, and no address is asked that
//! the guard does not permit: public ones, and the hosts and ports that the owner wrote as `url` and `issuer`.

mod error;
mod metadata;
mod discovery;
mod client;
mod kept;
mod attempt;
mod callback;
mod access;

pub use access::{LogOut, LoginState, ServerLogin, log_out};
pub use attempt::{LoginAttempt, RedirectVerdict};
pub use callback::CallbackListener;
pub use error::LoginError;
pub use kept::kept_secrets;
