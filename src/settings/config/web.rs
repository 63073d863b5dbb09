//! `configs/web.json`: what the personas may fetch from the web.

use crate::config::values::section::*;
use crate::web::{SearchService, private_target, search_host};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Access of the personas to the web. Without this file they have none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/web.json")]
pub struct TypedWeb {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Offers `web_fetch`. Without it no page is fetched.
    fetch: Option<TypedFetch>,
    /// Offers `web_search`. Without it nothing is searched.
    search: Option<TypedSearch>,
}

impl TypedWeb {
    /// Returns the variable of the search service's key.
    pub fn variables(&self) -> Option<&str> {
        self.search.as_ref().and_then(TypedSearch::key_variable)
    }
}

/// The service that `web_search` asks. It learns every query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedSearch {
    /// `searxng`, `brave` or `tavily`.
    #[schemars(schema_with = "service_schema")]
    service: String,
    /// Address of the service, such as `http://127.0.0.1:8888`; it may be in a private network. SearXNG needs one; the others have
    /// their own.
    base_url: Option<String>,
    /// Variable with the service's key. Default: `BRAVE_API_KEY` or `TAVILY_API_KEY`.
    key_variable: Option<String>,
}

impl TypedSearch {
    fn service(&self) -> Option<SearchService> {
        let mut all = SearchService::ALL.into_iter();
        all.find(|service| service.as_str() == self.service)
    }

    fn key_variable(&self) -> Option<&str> {
        let usual = self.service().and_then(SearchService::key_variable);
        self.key_variable.as_deref().or(usual)
    }
}

fn service_schema(_: &mut SchemaGenerator) -> Schema {
    let words = SearchService::ALL.map(SearchService::as_str);
    json_schema!({ "type": "string", "enum": words })
}

/// Pages that `web_fetch` gets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedFetch {
    /// Hosts with ports, such as `wiki.lan:80`, that may be asked although their addresses are private. Everything else must
    /// be on the public internet, at port 80 or 443.
    #[serde(default)]
    private_targets: Vec<String>,
}

/// Access of the personas to the web.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WebSettings {
    /// `None`: `web_fetch` is not offered.
    pub fetch: Option<FetchSettings>,
    /// `None`: `web_search` is not offered.
    pub search: Option<SearchSettings>,
}

impl WebSettings {
    /// Returns the private targets that the operator has opened, as `host:port`.
    pub fn private_targets(&self) -> &[String] {
        let fetch = self.fetch.as_ref();
        fetch.map_or(&[], |fetch| fetch.private_targets.as_slice())
    }
}

/// The service that `web_search` asks.
#[derive(Debug, Clone, Serialize)]
pub struct SearchSettings {
    #[serde(serialize_with = "as_word")]
    pub service: SearchService,
    pub base_url: String,
    /// Host of `base_url`.
    #[serde(skip)]
    pub host: String,
    pub key_variable: Option<String>,
    #[serde(skip)]
    pub key: Option<SecretString>,
}

fn as_word<S: serde::Serializer>(service: &SearchService, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(service.as_str())
}

/// Pages that `web_fetch` gets.
#[derive(Debug, Clone, Serialize)]
pub struct FetchSettings {
    /// Private targets as `host:port`, as they are compared.
    pub private_targets: Vec<String>,
}

/// Resolves `configs/web.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedWeb>, ctx: &mut CheckContext<'_>) -> WebSettings {
    let TypedWeb { fetch, search, .. } = &file.typed;
    let place = &mut ctx.place(file, "");
    WebSettings {
        fetch: fetch.as_ref().map(|typed| FetchSettings {
            private_targets: place.each("fetch/private_targets", &typed.private_targets, |text| {
                let hint = "write it such as `wiki.lan:80` or `127.0.0.1:8080`";
                let bad = || (format!("`{text}` is no host with a port"), hint.to_owned());
                private_target(text).ok_or_else(bad)
            }),
        }),
        search: search
            .as_ref()
            .and_then(|typed| searching(typed, &mut place.under("search"))),
    }
}

fn searching(typed: &TypedSearch, place: &mut CheckPlace<'_, '_>) -> Option<SearchSettings> {
    let service = typed.service()?;
    let base_url = typed.base_url.as_deref().or(service.usual_base_url());
    let Some(base_url) = base_url else {
        let hint = "write the address of your SearXNG, such as `http://127.0.0.1:8888`";
        place.refuse("", "has no `base_url`", hint);
        return None;
    };
    let Some(host) = search_host(base_url) else {
        let hint = "write `http://` or `https://`, a host, and a port if it has one";
        place.refuse("base_url", format!("`{base_url}` is no address"), hint);
        return None;
    };
    let variable = typed.key_variable();
    Some(SearchSettings {
        service,
        base_url: base_url.to_owned(),
        host,
        key_variable: variable.map(str::to_owned),
        key: variable.and_then(|variable| place.secret("", variable)),
    })
}
