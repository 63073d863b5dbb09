//! Style and script of the pages, to be kept by browsers for good.

use crate::http::assets::ASSETS;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply;
use axum::http::{HeaderValue, header};
use axum::response::Response;

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let name = call.param("name");
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(|| PageError::Missing("file".to_owned()))?;
    let mut response = reply::bytes(asset.kind, asset.bytes.to_vec());
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, kept);
    Ok(response)
}
