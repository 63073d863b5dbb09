//! Everything that is looked at before a handler runs, in this order: the name by which we are called, the method (the
//! router), Fetch Metadata, `Origin`, session or key, scope, the token of the form, the handler. The first refusal ends it.
//!
//! - `browser`: names, Fetch Metadata, `Origin`
//! - `access`: cookies and keys
//! - `form`: bodies of forms; `body`: bodies of bytes
//! - `once`: requests that are to happen once
//! - `form_page`: the page of a form that was refused

mod access;
mod body;
mod browser;
mod form;
mod form_page;
mod once;

pub(super) use browser::{Called, name};
pub(super) use form::kind;
pub(super) use form_page::{HOME, is_path_of, own_path};
pub(super) use once::wanted as wanted_once;

use super::call::{Call, WebCaller};
use super::connections::ConnectionMark;
use super::context::WebContext;
use super::failure::PageError;
use super::refusal::{self, RefusedRequest};
use super::reply;
use super::route::{QUESTION_BYTES_MAX, RouteAccess, RouteBody, RouteMethod, WebRoute};
use crate::store::WebSession;
use access::KnownCaller;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use browser::SentFrom;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Time after which a caller is asked to come again.
const COME_AGAIN: Duration = Duration::from_secs(30);

/// Checks a request and lets its handler answer.
pub(super) async fn answer(
    context: Arc<WebContext>,
    route: &'static WebRoute,
    request: Request,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut refused = RefusedRequest::default();
    let answered = match admit(&context, route, &parts).await {
        Ok(admitted) => {
            if let (false, Some(mark)) = (
                matches!(admitted.caller, WebCaller::Nobody),
                parts.extensions.get::<ConnectionMark>(),
            ) {
                mark.is_known();
            }
            refused.session = admitted.session();
            match call(
                &context,
                route,
                &mut parts,
                body,
                &mut refused.fields,
                admitted,
            )
            .await
            {
                Ok(call) => {
                    let renewed = call.renewed.clone();
                    let answered = handled(route, call).await;
                    answered.map(|response| reply::with_cookie(response, &renewed))
                }
                Err(error) => Err(error),
            }
        }
        Err(error @ (PageError::LogIn { .. } | PageError::TooManyAttempts(_)))
            if route.body == RouteBody::Form =>
        {
            // What was typed is shown once more, or it would be lost.
            let fields = form::read(&parts.headers, body).await;
            refused.fields = fields.unwrap_or_default();
            Err(error)
        }
        Err(error) => Err(error),
    };
    let response = match answered {
        Ok(response) => response,
        Err(error) => {
            let is_form = route.body == RouteBody::Form;
            refused.had_session = is_form || access::has_cookie(&context, &parts);
            let request = with_way_back(&context, &parts, refused);
            refusal::answer_refused(&context, route.shape, is_form, &error, &request).await
        }
    };
    reply::finished(response, &parts)
}

/// Answers a request that no route takes.
pub(super) async fn unrouted(
    context: &WebContext,
    refusal: PageError,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    let mut refused = RefusedRequest::default();
    // The navigation is for a browser with a session alone, and not behind a link of another site.
    if let Some(called) = parts.extensions.get::<Called>()
        && let Ok(SentFrom::ByOurselves) = browser::fetch_metadata(&parts.headers, true)
        && browser::origin(&parts.headers, &called.origin, true).is_ok()
        && let Ok(KnownCaller::Browser(browser)) =
            access::known(context, called, &parts.headers, RouteAccess::Session).await
    {
        refused.session = Some(browser.session);
    }
    let request = with_way_back(context, &parts, refused);
    refusal::unrouted(context, refusal, request).await
}

/// Adds the pages to which the page of an error leads.
fn with_way_back(context: &WebContext, parts: &Parts, refused: RefusedRequest) -> RefusedRequest {
    let back = form_page::of_request(context, parts, &refused.fields);
    let sent_next = refused.fields.iter().find(|(name, _)| name == "next");
    let next = match (parts.uri.path(), sent_next) {
        ("/login", Some((_, next))) => form_page::own_path(next).to_owned(),
        _ if parts.method == Method::POST => back.clone(),
        _ => {
            let path = parts.uri.path_and_query();
            path.map_or(HOME, |path| path.as_str()).to_owned()
        }
    };
    RefusedRequest {
        path: parts.uri.path().to_owned(),
        back,
        next,
        ..refused
    }
}

/// The right of a caller to go on to see an answer, which may end before the answer does.
#[derive(Clone)]
pub(super) struct CallRight {
    context: Arc<WebContext>,
    called: Called,
    headers: HeaderMap,
    access: RouteAccess,
}

impl CallRight {
    /// Returns the right with which a call came, by the access of its route.
    pub fn of(call: &Call, access: RouteAccess) -> Self {
        Self {
            context: call.context.clone(),
            called: Called {
                origin: call.origin.clone(),
                client: call.client,
            },
            headers: call.headers.clone(),
            access,
        }
    }

    /// Returns what the caller shows of itself: calls that show the same to one listener have the same right.
    pub fn credentials(&self) -> Vec<u8> {
        let shown = [header::AUTHORIZATION, header::COOKIE].map(|name| self.headers.get_all(name));
        let values = shown.iter().flatten().map(HeaderValue::as_bytes);
        values.collect::<Vec<_>>().join(&b'\n')
    }

    /// Reports whether its key or session is still good.
    pub async fn is_good(&self) -> bool {
        let known = access::known(&self.context, &self.called, &self.headers, self.access).await;
        matches!(known, Ok(KnownCaller::Browser(_) | KnownCaller::Program(_)))
    }
}

/// Lets the handler answer, once for each `Idempotency-Key`.
async fn handled(route: &WebRoute, call: Call) -> Result<Response, PageError> {
    let once = match route.body {
        RouteBody::Json => once::wanted(&call)?,
        _ => None,
    };
    let Some(once) = once else {
        return (route.handler)(call).await;
    };
    if let Some(response) = once::earlier(&call, &once).await? {
        return Ok(response);
    }
    let store = call.context.store.clone();
    let answered = (route.handler)(call).await;
    once::keep(&store, &once, answered).await
}

/// A request that may be answered, with the way in which it is known.
struct Admitted {
    called: Called,
    caller: WebCaller,
}

impl Admitted {
    fn session(&self) -> Option<WebSession> {
        match &self.caller {
            WebCaller::Browser(browser) => Some(browser.session.clone()),
            WebCaller::Nobody | WebCaller::Program(_) => None,
        }
    }
}

async fn admit(
    context: &WebContext,
    route: &WebRoute,
    parts: &Parts,
) -> Result<Admitted, PageError> {
    let called = parts.extensions.get::<Called>().cloned();
    let called = called.ok_or(PageError::Forbidden("this request has no name of ours"))?;
    let is_read = route.method == RouteMethod::Get;
    let sent = browser::fetch_metadata(&parts.headers, is_read)?;
    browser::origin(&parts.headers, &called.origin, is_read)?;
    let guesses = match (route.access, is_read) {
        // The form of the login: a good code waits, too, or it would be worth guessing.
        (RouteAccess::Anyone, false) => context.codes_failed.wait(called.client),
        _ => None,
    };
    if let Some(wait) = guesses {
        return Err(PageError::TooManyAttempts(wait));
    }
    let caller = match (route.access, sent) {
        (RouteAccess::Anyone, _) => WebCaller::Nobody,
        // A link from elsewhere shows nothing of the workspace, not even what a session could see.
        (_, SentFrom::ByLinkFromElsewhere) => return Err(PageError::LogIn { crossed: true }),
        (access, SentFrom::ByOurselves) => {
            match access::known(context, &called, &parts.headers, access).await? {
                KnownCaller::Browser(session) => WebCaller::Browser(Box::new(session)),
                KnownCaller::Program(key) => WebCaller::Program(Box::new(key)),
                KnownCaller::Nobody => return Err(PageError::LogIn { crossed: false }),
            }
        }
    };
    Ok(Admitted { called, caller })
}

/// Reads what the handler is to get, and checks the token of a form.
async fn call(
    context: &Arc<WebContext>,
    route: &WebRoute,
    parts: &mut Parts,
    body: axum::body::Body,
    sent: &mut Vec<(String, String)>,
    admitted: Admitted,
) -> Result<Call, PageError> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_| PageError::Missing("page".to_owned()))?;
    let params = params
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let query = form::pairs(parts.uri.query().unwrap_or_default());
    let (form, body, room) = read(context, route, &parts.headers, body).await?;
    if route.body == RouteBody::Form {
        sent.clone_from(&form);
    }
    check_words(route, &form, &query)?;
    let Admitted { called, caller } = admitted;
    if route.method == RouteMethod::Post
        && let WebCaller::Browser(session) = &caller
    {
        let in_header = (route.body != RouteBody::Form).then_some(&parts.headers);
        form::check_token(&form, in_header, session)?;
    }
    Ok(Call {
        context: context.clone(),
        origin: called.origin,
        client: called.client,
        browser: browser_name(parts),
        params,
        query,
        form,
        shape: route.shape,
        method: parts.method.clone(),
        headers: parts.headers.clone(),
        body,
        caller,
        room,
        path: parts.uri.path().to_owned(),
        connection: parts.extensions.get().cloned(),
        renewed: Arc::default(),
    })
}

/// The fields of a form, or the bytes of a body with its room in memory.
type ReadBody = (Vec<(String, String)>, Bytes, Option<OwnedSemaphorePermit>);

/// Reads the body as its route wants it.
async fn read(
    context: &WebContext,
    route: &WebRoute,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<ReadBody, PageError> {
    let letter_max = context.config.limits.letter_bytes_max;
    let most = match route.body {
        RouteBody::Nothing => return Ok((Vec::new(), Bytes::new(), None)),
        RouteBody::Form => return Ok((form::read(headers, body).await?, Bytes::new(), None)),
        RouteBody::Json => form::FORM_BYTES_MAX,
        RouteBody::Bytes(most) => most,
        // Files in base64, and what the conversation says.
        RouteBody::Question => {
            (letter_max.saturating_mul(4) / 3).saturating_add(QUESTION_BYTES_MAX)
        }
        // A letter that is only a little too large is refused by the intake, in its words.
        RouteBody::Letter => letter_max.saturating_add(QUESTION_BYTES_MAX),
    };
    let (body, room) = body::read(context, body, most).await?;
    let form = match route.body {
        RouteBody::Json => form::members(headers, &body)?,
        _ => Vec::new(),
    };
    Ok((form, body, room))
}

/// Returns the name that a browser gives itself.
fn browser_name(parts: &Parts) -> String {
    let name = parts.headers.get(header::USER_AGENT);
    let name = name.and_then(|name| name.to_str().ok());
    name.unwrap_or_default().to_owned()
}

/// Refuses a word of the query, or a member of the body, that the route does not know.
fn check_words(
    route: &WebRoute,
    form: &[(String, String)],
    query: &[(String, String)],
) -> Result<(), PageError> {
    for (name, noun, is_good) in route.values {
        form::is_as_known(query, name, noun, is_good)?;
    }
    if !route.knows_its_words() {
        return Ok(());
    }
    let sent = match route.body {
        RouteBody::Json => form,
        _ => query,
    };
    form::knows_only(sent, route.words)
}
