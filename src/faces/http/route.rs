//! A route as a value: its method, its path, its callers, its handler.

use super::call::Call;
use super::failure::{PageError, Shape};
use crate::store::KeyRight;
use axum::response::Response;
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Most bytes of a question in OpenAI's form, which brings its whole conversation, without its files.
pub(super) const QUESTION_BYTES_MAX: usize = 1024 * 1024;

/// Answer of a handler.
pub type HandlerAnswer = BoxFuture<'static, Result<Response, PageError>>;

/// A word of a query, with what it is and the check of its value.
pub(super) type QueryValue = (&'static str, &'static str, fn(&str) -> bool);

/// Callers of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// Everybody who reaches the listener: nothing of the workspace is shown.
    Anyone,
    /// A browser with a session.
    Session,
    /// A browser with a session, or a program whose key may read.
    Read,
    /// A program whose key has this right, for some persona: the handler asks for which ([`Call::key`]).
    Key(KeyRight),
    /// A browser with a session, or a program whose key has `admin`.
    Operate,
    /// Another agent, whose key may read or have a persona write; the handler asks which.
    Agent,
}

/// Body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBody {
    /// None is read.
    Nothing,
    /// A form, with the token of its session where a browser sent it.
    Form,
    /// An object of JSON, whose members are taken as the fields of a form.
    Json,
    /// At most so many bytes, which the handler understands.
    Bytes(usize),
    /// A question in OpenAI's form, with files as large as those of a letter.
    Question,
    /// A letter, as large as the configuration lets letters be.
    Letter,
}

/// Method of a route. A route with `Get` answers `HEAD` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteMethod {
    Get,
    Post,
}

/// One path with one method.
pub struct WebRoute {
    pub method: RouteMethod,
    pub path: &'static str,
    pub access: RouteAccess,
    /// Change that a call makes; `None`: nothing, as for every `GET`.
    pub changes: Option<&'static str>,
    pub body: RouteBody,
    /// Answer of a `GET` for programs, in words; empty for pages.
    pub(super) gives: &'static str,
    /// Schema of its answer for programs; `None`: it is no JSON of ours.
    pub(super) answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// Words of the query that it knows, or members of the body.
    pub(super) words: &'static [&'static str],
    /// Values that words of the query of a page may have; any other is an error.
    pub(super) values: &'static [QueryValue],
    /// Shape of its errors.
    pub(super) shape: Shape,
    pub(super) handler: fn(Call) -> HandlerAnswer,
}

impl WebRoute {
    /// Reports whether it is for programs, and not a page.
    pub fn is_for_programs(&self) -> bool {
        self.shape != Shape::Page
    }

    /// Describes what a call changes, or else gives; empty: its standard says it.
    pub fn described(&self) -> &'static str {
        self.changes.unwrap_or(self.gives)
    }

    /// Returns the words of its query, or the members of its body.
    pub fn words(&self) -> &'static [&'static str] {
        self.words
    }

    /// Says what a `GET` for programs gives, and which words of the query it knows.
    pub(super) const fn about(self, gives: &'static str, words: &'static [&'static str]) -> Self {
        Self {
            gives,
            words,
            ..self
        }
    }

    /// Names the record that a program gets.
    pub(super) const fn gives<T: JsonSchema>(self) -> Self {
        Self {
            answer: Some(SchemaGenerator::subschema_for::<T>),
            ..self
        }
    }

    /// Names the members of the body.
    pub(super) const fn knowing(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    /// Names the values that words of the query may have.
    pub(super) const fn checked(self, values: &'static [QueryValue]) -> Self {
        Self { values, ..self }
    }

    /// Reports whether a word that it does not know is an error.
    pub(super) fn knows_its_words(&self) -> bool {
        !self.gives.is_empty() || self.body == RouteBody::Json
    }
}

pub(super) const fn page(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        method: RouteMethod::Get,
        path,
        access: RouteAccess::Session,
        changes: None,
        body: RouteBody::Nothing,
        gives: "",
        answer: None,
        words: &[],
        values: &[],
        shape: Shape::Page,
        handler,
    }
}

pub(super) const fn open(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        access: RouteAccess::Anyone,
        ..page(path, handler)
    }
}

pub(super) const fn read(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        access: RouteAccess::Read,
        shape: Shape::Json,
        ..page(path, handler)
    }
}

/// Returns the route of the API for an action that the pages have too: the same handler, with JSON in place of a form.
pub(super) const fn write(
    access: RouteAccess,
    path: &'static str,
    changes: &'static str,
    handler: fn(Call) -> HandlerAnswer,
) -> WebRoute {
    WebRoute {
        access,
        shape: Shape::Json,
        body: RouteBody::Json,
        ..action(path, changes, handler)
    }
}

pub(super) const fn action(
    path: &'static str,
    changes: &'static str,
    handler: fn(Call) -> HandlerAnswer,
) -> WebRoute {
    WebRoute {
        method: RouteMethod::Post,
        changes: Some(changes),
        body: RouteBody::Form,
        ..page(path, handler)
    }
}

/// A route for a program that collects numbers, whose key may do nothing else.
pub(super) const fn scrape(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        access: RouteAccess::Key(KeyRight::Metrics),
        shape: Shape::Json,
        ..page(path, handler)
    }
}

/// A route for programs that speak OpenAI's API, whose keys may talk to a persona.
pub(super) const fn model_read(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        access: RouteAccess::Key(KeyRight::Chat),
        shape: Shape::OpenAi,
        ..page(path, handler)
    }
}

/// As [`model_read`], for a question.
pub(super) const fn model_question(
    path: &'static str,
    handler: fn(Call) -> HandlerAnswer,
) -> WebRoute {
    WebRoute {
        method: RouteMethod::Post,
        changes: Some("stores a message to a persona, with its run"),
        body: RouteBody::Question,
        ..model_read(path, handler)
    }
}

/// A route for other agents.
pub(super) const fn agent(path: &'static str, handler: fn(Call) -> HandlerAnswer) -> WebRoute {
    WebRoute {
        method: RouteMethod::Post,
        access: RouteAccess::Agent,
        changes: Some("may store a question to a persona, with its run"),
        body: RouteBody::Bytes(crate::mcp::REQUEST_BYTES_MAX),
        shape: Shape::Json,
        ..page(path, handler)
    }
}
