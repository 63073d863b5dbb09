//! `GET /api/v1/openapi.json`: the API in the words of OpenAPI 3.1, made from the table of routes and the records' types, so
//! that it cannot drift.

use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::refusal::ApiError;
use crate::http::reply::record;
use crate::http::route::{RouteAccess, RouteBody, RouteMethod, WebRoute};
use crate::http::routes::ROUTES;
use axum::response::Response;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
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
    schema: Schema,
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
    schema: Schema,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenApiComponents {
    schemas: Map<String, Value>,
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

/// Answers with the description.
pub(in crate::http) async fn description(_call: Call) -> Result<Response, PageError> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut schemas = settings.into_generator();
    let mut paths: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for route in ROUTES.iter().filter(|route| route.knows_its_words()) {
        let method = match route.method {
            RouteMethod::Get => "get",
            RouteMethod::Post => "post",
        };
        let path = paths.entry(route.path).or_default();
        path.insert(method, operation(route, method, &mut schemas));
    }
    record(&OpenApi {
        openapi: "3.1.1",
        info: OpenApiInfo {
            title: "Attaché",
            version: env!("CARGO_PKG_VERSION"),
        },
        paths,
        components: components(schemas.take_definitions(true)),
    })
}

fn operation(route: &WebRoute, method: &str, schemas: &mut SchemaGenerator) -> OpenApiOperation {
    let words = route.path.split('/').filter(|word| !word.is_empty());
    let words = words.map(|word| word.trim_matches(['{', '}']).replace('.', "_"));
    let operation_id = std::iter::once(method.to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_");
    let content = |kind: &'static str, schema| BTreeMap::from([(kind, OpenApiContent { schema })]);
    let answered = match (route.answer, route.path) {
        (Some(of), _) => content("application/json", of(schemas)),
        (None, "/api/v1/events") => content("text/event-stream", text()),
        (None, _) => content("application/json", json_schema!({ "type": "object" })),
    };
    let refused = schemas.subschema_for::<ApiError>();
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
            content: content("application/json", body_schema(route)),
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

fn text() -> Schema {
    json_schema!({ "type": "string" })
}

/// Returns the schema of a body, whose members are texts as the fields of a form are.
fn body_schema(route: &WebRoute) -> Schema {
    let members = route
        .words
        .iter()
        .map(|word| ((*word).to_owned(), text().to_value()));
    json_schema!({
        "type": "object", "additionalProperties": false, "properties": members.collect::<Map<_, _>>(),
    })
}

fn parameters(route: &WebRoute) -> Vec<OpenApiParameter> {
    let parameter = |name, place| OpenApiParameter {
        name,
        place,
        required: place == "path",
        schema: text(),
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
        RouteAccess::Anyone => &[],
        RouteAccess::Session => &["session"],
        RouteAccess::Read | RouteAccess::Operate => &["key", "session"],
        RouteAccess::Key(_) | RouteAccess::Agent => &["key"],
    };
    ways.iter()
        .map(|way| BTreeMap::from([(*way, [])]))
        .collect()
}

fn components(schemas: Map<String, Value>) -> OpenApiComponents {
    OpenApiComponents {
        schemas,
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
