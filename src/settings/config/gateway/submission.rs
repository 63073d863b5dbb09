//! `submission` in `configs/gateway.json`: owners that may log in where a listener offers AUTH.

use crate::config::secrets::as_set;
use crate::config::values::section::*;
use crate::domain::Address;
use secrecy::ExposeSecret;

/// An owner that may log in with AUTH.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedSubmitter {
    /// User name of at most 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    user: String,
    /// One of `owners`.
    address: String,
    /// The variable, in the environment or in `.secrets`, that holds the password.
    #[schemars(length(min = 1))]
    pub password_variable: String,
}

/// An owner that may log in with AUTH.
#[derive(Debug, Clone, Serialize)]
pub struct Submitter {
    pub user: String,
    /// One of the owners, on whose behalf the user's letters are submitted.
    pub address: Address,
    #[serde(serialize_with = "as_set")]
    pub password: SecretString,
}

/// Resolves the users. Problems go to the context.
pub(super) fn resolve(
    typed: &[TypedSubmitter],
    owners: &[Address],
    place: &mut CheckPlace<'_, '_>,
) -> Vec<Submitter> {
    let mut submission: Vec<Submitter> = Vec::new();
    for (index, one) in typed.iter().enumerate() {
        let (place, variable) = (&mut place.under(index), &one.password_variable);
        let TypedSubmitter { user, address, .. } = one;
        if submission.iter().any(|other| other.user == *user) {
            place.complain("user", format!("`{user}` is named twice"));
        }
        let key = Address::parse(address).map(|address| address.key());
        let owner = owners.iter().find(|owner| Ok(owner.key()) == key);
        if owner.is_none() {
            let message = format!("`{address}` is no owner");
            place.refuse("address", message, "only addresses in `owners` may log in");
        }
        let password = place.ctx.secrets.get(variable);
        let password = password.filter(|password| !password.expose_secret().is_empty());
        if password.is_none() {
            let message = format!("this user's password is not in `{variable}`");
            place.refuse("password_variable", message, place.ctx.how_to_set(variable));
        }
        let both = owner.cloned().zip(password);
        submission.extend(both.map(|(address, password)| Submitter {
            user: user.clone(),
            address,
            password,
        }));
    }
    submission
}
