//! Images and files that stand in a message, as `data:` URLs. Nothing is fetched: an address, or the id of a file that lies elsewhere, is
//! refused.

use super::error::ClientError;
use crate::runs::chat::program_message::SpokenFile;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

/// Type of a file whose sender names none.
static ANY_TYPE: &str = "application/octet-stream";
/// Longest media type.
const TYPE_CHARS_MAX: usize = 100;
/// Clients write padding or leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads a part that is an image: `image_url` of a chat completion, `input_image` of a response.
pub(super) fn image(part: &Value, param: &str) -> Result<SpokenFile, ClientError> {
    let (param, url) = match &part["image_url"] {
        Value::String(url) => (format!("{param}.image_url"), url.as_str()),
        object => (
            format!("{param}.image_url.url"),
            object["url"].as_str().unwrap_or_default(),
        ),
    };
    let refused = |why: &str| ClientError::invalid(&param, "invalid_image_url", why);
    let (media_type, data) = data_url(url).ok_or_else(|| {
        refused("an image is a `data:` URL in base64: nothing is fetched from an address, and no file is stored beforehand")
    })?;
    if !media_type.starts_with("image/") {
        return Err(refused(
            "the `data:` URL is of no image; send other files as parts of the type `file` or `input_file`",
        ));
    }
    let bytes = decoded(data).ok_or_else(|| refused("the `data:` URL is not in base64"))?;
    Ok(SpokenFile::new("", &media_type, bytes))
}

/// Reads a part that is a file: `file` of a chat completion, `input_file` of a response.
pub(super) fn file(part: &Value, param: &str) -> Result<SpokenFile, ClientError> {
    // A chat completion has it one member deeper than a response.
    let (object, param) = match part.get("file") {
        Some(object) => (object, format!("{param}.file")),
        None => (part, param.to_owned()),
    };
    for elsewhere in ["file_id", "file_url"] {
        if object.get(elsewhere).is_some_and(|value| !value.is_null()) {
            let param = format!("{param}.{elsewhere}");
            let message =
                format!("`{elsewhere}` is not supported: send the file itself, as `file_data`");
            return Err(ClientError::unsupported(&param, message));
        }
    }
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let data = text("file_data");
    let param = format!("{param}.file_data");
    let refused = |why: &str| ClientError::invalid(&param, "invalid_value", why);
    if data.is_empty() {
        return Err(refused("a file is `file_data`: a `data:` URL, or base64"));
    }
    let (media_type, data) = data_url(data).unwrap_or_else(|| (ANY_TYPE.to_owned(), data));
    let bytes = decoded(data).ok_or_else(|| refused("`file_data` is not in base64"))?;
    Ok(SpokenFile::new(text("filename"), &media_type, bytes))
}

/// Splits a `data:` URL (RFC 2397) in base64 into its media type and its data.
fn data_url(url: &str) -> Option<(String, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let kind = head.strip_suffix(";base64")?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/".contains(c);
    let is_type = kind.len() <= TYPE_CHARS_MAX
        && kind.matches('/').count() == 1
        && kind.chars().all(is_token);
    let media_type = match is_type {
        true => kind.to_ascii_lowercase(),
        false => ANY_TYPE.to_owned(),
    };
    Some((media_type, data))
}

fn decoded(data: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(data.trim()).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_stands_in_its_part_and_is_fetched_from_nowhere() {
        let of = |kind: &str, bytes: &[u8]| SpokenFile::new("", kind, bytes.to_vec());
        for (url, file) in [
            ("data:image/png;base64,AAEC", of("image/png", &[0, 1, 2])),
            ("data:IMAGE/Png;name=x;base64,AAE", of("image/png", &[0, 1])),
        ] {
            let completion = json!({ "image_url": { "url": url, "detail": "low" } });
            assert_eq!(image(&completion, "p").expect("an image"), file);
            assert_eq!(
                image(&json!({ "image_url": url }), "p").expect("an image"),
                file
            );
        }
        for url in [
            "https://evil.test/a.png",
            "file:///etc/passwd",
            "data:",
            "data:image/png,plain",
            "data:text/html;base64,AAEC",
            "data:image/png;base64,",
            "data:image/png;base64,!",
            "",
        ] {
            let error = image(&json!({ "image_url": { "url": url } }), "p").expect_err(url);
            assert_eq!(
                (error.param.as_deref(), error.code),
                (Some("p.image_url.url"), "invalid_image_url")
            );
        }
        let named = json!({ "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAEC" } });
        let pdf = SpokenFile::new("a.pdf", "application/pdf", vec![0, 1, 2]);
        assert_eq!(file(&named, "p").expect("a file"), pdf);
        assert_eq!(
            file(&json!({ "file_data": "AAEC" }), "p").expect("a file"),
            of(ANY_TYPE, &[0, 1, 2])
        );
        for (part, param) in [
            (json!({ "file": { "file_id": "f1" } }), "p.file.file_id"),
            (json!({ "file_url": "https://evil.test/a" }), "p.file_url"),
            (json!({ "file_data": "?" }), "p.file_data"),
            (json!({ "file": {} }), "p.file.file_data"),
        ] {
            assert_eq!(
                file(&part, "p").expect_err("an error").param.as_deref(),
                Some(param)
            );
        }
    }
}
