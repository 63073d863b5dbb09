//! `ingest` in `configs/gateway.json`: letters that other programs hand in over HTTP.

use crate::config::file::{Document, child};
use crate::config::secrets::Secrets;
use crate::config::values::check_context::CheckContext;
use crate::config::values::net::domain;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

/// Letters that other programs hand in over HTTP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedIngest {
    /// The authserv-id of the server behind which a key's letters come, such as `mx.cloudflare.net`: its topmost
    /// `Authentication-Results` are believed. Default: none, and senders are known by their signatures alone.
    authserv_id: Option<String>,
    /// Mailgun's routes, at `/ingest/mailgun`.
    mailgun: Option<TypedMailgun>,
    /// Postmark's inbound streams, at `/ingest/postmark`.
    postmark: Option<TypedPostmark>,
}

/// Mailgun's routes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedMailgun {
    /// The variable, in the environment or in `.secrets`, that holds the HTTP webhook signing key.
    #[schemars(length(min = 1))]
    signing_key_variable: String,
    /// The authserv-id of Mailgun's servers, if their results are to be believed.
    authserv_id: Option<String>,
}

/// Postmark's inbound streams.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedPostmark {
    /// User in the address that Postmark calls.
    #[schemars(length(min = 1))]
    user: String,
    /// The variable, in the environment or in `.secrets`, that holds the password in that address.
    #[schemars(length(min = 1))]
    password_variable: String,
    /// The authserv-id of Postmark's servers, if their results are to be believed.
    authserv_id: Option<String>,
}

impl TypedIngest {
    /// Names of the variables with its keys.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let mailgun = self.mailgun.iter();
        let mailgun = mailgun.map(|typed| typed.signing_key_variable.as_str());
        let postmark = self.postmark.iter();
        mailgun.chain(postmark.map(|typed| typed.password_variable.as_str()))
    }
}

/// Letters that other programs hand in over HTTP.
#[derive(Debug, Clone, Default)]
pub struct HttpIngest {
    /// Server whose results are believed on letters that a key hands in; lower case.
    pub authserv_id: Option<String>,
    pub mailgun: Option<MailgunIngest>,
    pub postmark: Option<PostmarkIngest>,
}

/// Mailgun's routes.
#[derive(Debug, Clone)]
pub struct MailgunIngest {
    pub signing_key: SecretString,
    /// Server whose results are believed; lower case.
    pub authserv_id: Option<String>,
}

/// Postmark's inbound streams.
#[derive(Debug, Clone)]
pub struct PostmarkIngest {
    pub user: String,
    pub password: SecretString,
    /// Server whose results are believed; lower case.
    pub authserv_id: Option<String>,
}

/// Resolves the section. Problems go to the context.
pub(super) fn resolve(
    file: &Document,
    typed: Option<&TypedIngest>,
    ctx: &mut CheckContext<'_>,
) -> HttpIngest {
    let Some(typed) = typed else {
        return HttpIngest::default();
    };
    let authserv_id = server(file, "/ingest", typed.authserv_id.as_deref(), ctx);
    let mailgun = typed.mailgun.as_ref().and_then(|typed| {
        let at = "/ingest/mailgun";
        let authserv_id = server(file, at, typed.authserv_id.as_deref(), ctx);
        let pointer = child(at, "signing_key_variable");
        Some(MailgunIngest {
            signing_key: secret(file, &pointer, &typed.signing_key_variable, ctx)?,
            authserv_id,
        })
    });
    let postmark = typed.postmark.as_ref().and_then(|typed| {
        let at = "/ingest/postmark";
        let authserv_id = server(file, at, typed.authserv_id.as_deref(), ctx);
        let pointer = child(at, "password_variable");
        Some(PostmarkIngest {
            user: typed.user.clone(),
            password: secret(file, &pointer, &typed.password_variable, ctx)?,
            authserv_id,
        })
    });
    HttpIngest {
        authserv_id,
        mailgun,
        postmark,
    }
}

fn server(
    file: &Document,
    pointer: &str,
    typed: Option<&str>,
    ctx: &mut CheckContext<'_>,
) -> Option<String> {
    let typed = typed?;
    let server = domain(typed);
    if server.is_none() {
        let pointer = child(pointer, "authserv_id");
        ctx.report(file.problem_at(&pointer, format!("`{typed}` is not a host name")));
    }
    server
}

fn secret(
    file: &Document,
    pointer: &str,
    variable: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<SecretString> {
    let secrets: &Secrets<'_> = ctx.secrets;
    let secret = secrets.get(variable);
    if secret.is_none() {
        let problem = file.problem_at(pointer, format!("`{variable}` is not set"));
        ctx.report(problem.hint("set it in `.secrets`, or in the engine's environment"));
    }
    secret
}

/// JSON of the section, without its keys.
pub fn show(ingest: &HttpIngest) -> Value {
    let mailgun = ingest.mailgun.as_ref();
    let postmark = ingest.postmark.as_ref();
    json!({
        "authserv_id": ingest.authserv_id,
        "mailgun": mailgun.map(|one| json!({"signing_key": "[set]", "authserv_id": one.authserv_id})),
        "postmark": postmark.map(|one| json!({
            "user": one.user, "password": "[set]", "authserv_id": one.authserv_id,
        })),
    })
}
