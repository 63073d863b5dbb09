//! The page on which a form stands, to go back to after a login or an error: the page that a browser names as the sender, if it
//! is one of ours, else the page that goes with the path of the form.

use crate::http::context::WebContext;
use axum::http::request::Parts;
use axum::http::{Method, Uri, header};
use form_urlencoded::byte_serialize;

/// Path after a login that asks for none.
pub(in crate::http) const HOME: &str = "/";

/// Returns the path of the page of a refused request; of a form, with its fields where they could be read.
pub(super) fn of_request(
    context: &WebContext,
    parts: &Parts,
    fields: &[(String, String)],
) -> String {
    let path = parts.uri.path();
    let is_form = parts.method == Method::POST;
    let sender = sender(context, parts).filter(|page| is_form || *page != path);
    match segments(path).as_slice() {
        ["personas", id, "file"] if is_form => {
            let name = fields.iter().find(|(name, _)| name == "name");
            match name {
                Some((_, name)) => {
                    let name: String = byte_serialize(name.as_bytes()).collect();
                    format!("/personas/{id}/file?name={name}")
                }
                None => format!("/personas/{id}"),
            }
        }
        _ if sender.is_some() => sender.unwrap_or_default(),
        _ if !is_form => HOME.to_owned(),
        [one @ ("r" | "m"), id, ..] => format!("/{one}/{id}"),
        [
            one @ ("approvals" | "schedule" | "outbox" | "memory" | "access"),
            ..,
        ] => {
            format!("/{one}")
        }
        ["halt" | "resume"] => "/doctor".to_owned(),
        _ => HOME.to_owned(),
    }
}

/// Returns the page of ours that a browser names as the sender.
fn sender(context: &WebContext, parts: &Parts) -> Option<String> {
    let sender = parts.headers.get(header::REFERER)?.to_str().ok()?;
    let sender: Uri = sender.parse().ok()?;
    let host = parts.headers.get(header::HOST)?.to_str().ok()?;
    let is_ours = sender.authority()?.as_str().eq_ignore_ascii_case(host);
    let is_page = context
        .page_paths
        .iter()
        .any(|page| is_path_of(page, sender.path()));
    let path = own_path(sender.path_and_query()?.as_str());
    (is_ours && is_page).then(|| path.to_owned())
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').skip(1).collect()
}

/// Reports whether a path is one of a route's, whose variables stand in braces.
pub(in crate::http) fn is_path_of(route: &str, path: &str) -> bool {
    let (route, path) = (segments(route), segments(path));
    let fits =
        |(own, sent): (&&str, &&str)| own == sent || own.starts_with('{') && !sent.is_empty();
    route.len() == path.len() && route.iter().zip(&path).all(fits)
}

/// Returns a path of ours, never an address: `//host` and `/\host` are addresses to browsers.
pub(in crate::http) fn own_path(next: &str) -> &str {
    let is_path = next.starts_with('/')
        && !next[1..].starts_with(['/', '\\'])
        && next.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path { next } else { HOME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere_after_a_login() {
        for (next, path) in [
            ("/t/1?a=b", "/t/1?a=b"),
            ("//evil.test", HOME),
            ("/\\evil.test", HOME),
            ("https://evil.test", HOME),
            ("/a\r\nSet-Cookie: x", HOME),
            ("", HOME),
        ] {
            assert_eq!(own_path(next), path, "{next}");
        }
    }

    #[test]
    fn variables_stand_for_one_part_that_is_not_empty() {
        for (route, path, fits) in [
            ("/", "/", true),
            ("/t/{id}", "/t/1", true),
            ("/t/{id}", "/t/", false),
            ("/t/{id}", "/t/1/2", false),
            ("/memory", "/t", false),
        ] {
            assert_eq!(is_path_of(route, path), fits, "{route} {path}");
        }
    }
}
