//! The router of a listener, made from the table of routes and from nothing else.

use super::ROUTES;
use crate::http::checks;
use crate::http::context::WebContext;
use crate::http::failure::{PageError, Shape};
use crate::http::route::{RouteAccess, RouteMethod};
use axum::Router;
use axum::extract::Request;
use axum::routing::{MethodFilter, MethodRouter, on};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Builds the router of a listener.
pub(in crate::http) fn router(context: &Arc<WebContext>) -> Router {
    let mut paths: BTreeMap<&'static str, MethodRouter> = BTreeMap::new();
    for route in ROUTES {
        let filter = match route.method {
            RouteMethod::Get => MethodFilter::GET,
            RouteMethod::Post => MethodFilter::POST,
        };
        let context = context.clone();
        let handler = move |request: Request| checks::answer(context.clone(), route, request);
        let methods = paths.remove(route.path);
        paths.insert(
            route.path,
            match methods {
                Some(methods) => methods.on(filter, handler),
                None => on(filter, handler),
            },
        );
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(path, methods);
    }
    let (missing, other) = (context.clone(), context.clone());
    router
        .fallback(move |request: Request| {
            let context = missing.clone();
            let refusal = PageError::Missing("page".to_owned());
            async move { checks::unrouted(&context, refusal, request).await }
        })
        .method_not_allowed_fallback(move |request: Request| {
            let context = other.clone();
            let refusal = PageError::WrongMethod(methods_of(request.uri().path()));
            async move { checks::unrouted(&context, refusal, request).await }
        })
}

/// Returns the paths of the pages that a browser with a session may read.
pub(in crate::http) fn page_paths() -> Vec<&'static str> {
    let pages = ROUTES.iter().filter(|route| {
        let is_page = route.access == RouteAccess::Session && route.shape == Shape::Page;
        is_page && route.method == RouteMethod::Get
    });
    pages.map(|route| route.path).collect()
}

/// Returns the methods that a path takes.
fn methods_of(path: &str) -> String {
    let own = ROUTES
        .iter()
        .filter(|route| checks::is_path_of(route.path, path));
    let names = own.map(|route| match route.method {
        RouteMethod::Get => "GET",
        RouteMethod::Post => "POST",
    });
    names.collect::<Vec<_>>().join(" and ")
}
