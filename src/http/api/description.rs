//! `GET /api/v1/openapi.json`: the API in the words of OpenAPI 3.1, made from the table of routes, so that it cannot drift.
//!
//! Absent on purpose: the members of answers. They are those of `--json`, which `docs/reference` describes.

use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply::record;
use crate::http::route::{RouteAccess, RouteBody, RouteMethod, WebRoute};
use crate::http::routes::ROUTES;
use axum::response::Response;
use serde::Serialize;
use std::collections::BTreeMap;

/// A description of an API (OpenAPI 3.1.1, section 4.8.1).
#[derive(Serialize)]
struct OpenApi {
    openapi: &'static str,
    info: OpenApiInfo,
    paths: BTreeMap<&'static str, BTreeMap<&'static str, OpenApiOperation>>,
    components: OpenApiComponents,
}

#[derive(Serialize)]
struct OpenApiInfo {
    title: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenApiOperation {
    operation_id: String,
    summary: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<OpenApiParameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<OpenApiBody>,
    responses: BTreeMap<&'static str, OpenApiAnswer>,
    security: Vec<BTreeMap<&'static str, [String; 0]>>,
}

#[derive(Serialize)]
struct OpenApiParameter {
    name: &'static str,
    #[serde(rename = "in")]
    place: &'static str,
    required: bool,
    schema: OpenApiSchema,
}

#[derive(Serialize)]
struct OpenApiBody {
    required: bool,
    content: BTreeMap<&'static str, OpenApiContent>,
}

#[derive(Serialize)]
struct OpenApiAnswer {
    description: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    content: BTreeMap<&'static str, OpenApiContent>,
}

#[derive(Serialize)]
struct OpenApiContent {
    schema: OpenApiSchema,
}

/// A schema (JSON Schema 2020-12), as far as this API needs one.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct OpenApiSchema {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'static str, OpenApiSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_properties: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenApiComponents {
    schemas: BTreeMap<&'static str, OpenApiSchema>,
    security_schemes: BTreeMap<&'static str, OpenApiSecurity>,
}

#[derive(Serialize)]
struct OpenApiSecurity {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    place: Option<&'static str>,
    description: &'static str,
}

impl OpenApiSchema {
    fn of(kind: &'static str) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }

    fn object(members: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        Self {
            properties: members.into_iter().collect(),
            ..Self::of("object")
        }
    }
}

/// Answers with the description.
pub(in crate::http) async fn description(_call: Call) -> Result<Response, PageError> {
    let mut paths: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for route in ROUTES.iter().filter(|route| route.knows_its_words()) {
        let method = match route.method {
            RouteMethod::Get => "get",
            RouteMethod::Post => "post",
        };
        let path = paths.entry(route.path).or_default();
        path.insert(method, operation(route, method));
    }
    record(&OpenApi {
        openapi: "3.1.1",
        info: OpenApiInfo {
            title: "Attaché",
            version: env!("CARGO_PKG_VERSION"),
        },
        paths,
        components: components(),
    })
}

fn operation(route: &WebRoute, method: &str) -> OpenApiOperation {
    let words = route.path.split('/').filter(|word| !word.is_empty());
    let words = words.map(|word| word.trim_matches(['{', '}']).replace('.', "_"));
    let operation_id = std::iter::once(method.to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_");
    let content = |kind: &'static str, schema| BTreeMap::from([(kind, OpenApiContent { schema })]);
    let answered = match route.path {
        "/api/v1/events" => content("text/event-stream", OpenApiSchema::of("string")),
        _ => content("application/json", OpenApiSchema::of("object")),
    };
    let refused = OpenApiSchema {
        reference: Some("#/components/schemas/Error"),
        ..OpenApiSchema::default()
    };
    let answer = |description, content| OpenApiAnswer {
        description,
        content,
    };
    let has_body = route.body == RouteBody::Json;
    OpenApiOperation {
        operation_id,
        summary: route.changes.unwrap_or(route.gives),
        parameters: parameters(route),
        request_body: has_body.then(|| OpenApiBody {
            required: false,
            content: content(
                "application/json",
                OpenApiSchema {
                    additional_properties: Some(false),
                    ..OpenApiSchema::object(
                        route
                            .words
                            .iter()
                            .map(|word| (*word, OpenApiSchema::of("string"))),
                    )
                },
            ),
        }),
        responses: BTreeMap::from([
            ("200", answer("the record, as `--json` prints it", answered)),
            (
                "default",
                answer("an error", content("application/json", refused)),
            ),
        ]),
        security: security(route.access),
    }
}

fn parameters(route: &WebRoute) -> Vec<OpenApiParameter> {
    let parameter = |name, place| OpenApiParameter {
        name,
        place,
        required: place == "path",
        schema: OpenApiSchema::of("string"),
    };
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(parameter(name, "path"))
    });
    let (in_query, in_head): (&[&str], &[&str]) = match route.body {
        RouteBody::Json => (&[], &["Idempotency-Key"]),
        _ => (route.words, &[]),
    };
    in_path
        .chain(in_query.iter().map(|name| parameter(name, "query")))
        .chain(in_head.iter().map(|name| parameter(name, "header")))
        .collect()
}

/// Returns the ways in which a caller of a route may be known: one of them is enough.
fn security(access: RouteAccess) -> Vec<BTreeMap<&'static str, [String; 0]>> {
    let ways: &[&str] = match access {
        RouteAccess::Anyone | RouteAccess::Signed => &[],
        RouteAccess::Session => &["session"],
        RouteAccess::Read | RouteAccess::Operate => &["key", "session"],
        RouteAccess::Key(_) | RouteAccess::Agent => &["key"],
    };
    ways.iter()
        .map(|way| BTreeMap::from([(*way, [])]))
        .collect()
}

fn components() -> OpenApiComponents {
    let text = || OpenApiSchema::of("string");
    let error = OpenApiSchema::object([
        ("code", text()),
        ("message", text()),
        ("hint", text()),
        ("retryable", OpenApiSchema::of("boolean")),
    ]);
    OpenApiComponents {
        schemas: BTreeMap::from([("Error", OpenApiSchema::object([("error", error)]))]),
        security_schemes: BTreeMap::from([
            (
                "key",
                OpenApiSecurity {
                    kind: "http",
                    scheme: Some("bearer"),
                    name: None,
                    place: None,
                    description: "a key of `attache web tokens create`: `read` for a GET, `admin` for a POST",
                },
            ),
            (
                "session",
                OpenApiSecurity {
                    kind: "apiKey",
                    scheme: None,
                    name: Some("X-Form-Token"),
                    place: Some("header"),
                    description: "the session of a browser, by its cookie; a POST needs the token of its forms besides",
                },
            ),
        ]),
    }
}
