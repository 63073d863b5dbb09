//! `objects` of `configs/keeping.json`: where large bytes are kept, if not in their rows.

use super::secrets::{Secrets, is_stand_in};
use super::values::net::may_speak_http;
use crate::config::file::duration::{self, TypedDuration, spell};
use crate::config::file::{Document, Problem};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Name of the secret with the id of the key of a bucket.
pub const OBJECTS_KEY_ID: &str = "ATTACHE_OBJECTS_KEY_ID";
/// Name of the secret with the key of a bucket.
pub const OBJECTS_SECRET_KEY: &str = "ATTACHE_OBJECTS_SECRET_KEY";
/// Bounds of the wait for an object store. The least is a round trip; a peer waits ten minutes for the answer to its letter
/// (RFC 5321 section 4.5.3.2.6).
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Object store for large bytes of letters and attachments. Without it, all bytes stay in the database.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TypedObjects {
    /// `s3://BUCKET/PREFIX`, or `file:///FOLDER` for a folder that all nodes share.
    #[schemars(length(min = 1))]
    url: String,
    /// Region of the bucket.
    #[serde(default = "default_region")]
    region: String,
    /// Address of the service, where it is not that of AWS: `https://minio.example:9000`.
    endpoint: Option<String>,
    /// Size in bytes from which bytes become an object; smaller ones stay in their rows.
    #[serde(default = "default_bytes_min")]
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    bytes_min: u64,
    /// Time within which a letter's objects must be stored or an object read, from `1s` to `5m`.
    #[serde(default = "default_timeout", with = "duration::text")]
    #[schemars(with = "TypedDuration", default = "timeout_text")]
    timeout: Duration,
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

const fn default_bytes_min() -> u64 {
    16 * 1024
}

const fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

fn timeout_text() -> String {
    spell(default_timeout())
}

/// Object store for large bytes.
#[derive(Debug, Clone, Serialize)]
pub struct ObjectSettings {
    pub url: String,
    pub region: String,
    pub endpoint: Option<String>,
    /// Size in bytes from which bytes become an object.
    pub bytes_min: usize,
    /// Time within which a letter's objects must be stored, or an object read.
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    #[serde(skip)]
    pub place: ObjectPlace,
}

/// Place of objects.
#[derive(Debug, Clone)]
pub enum ObjectPlace {
    /// Absolute path of a folder.
    Folder(PathBuf),
    Bucket {
        name: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
        /// `None`: this process has no access to secrets.
        key: Option<BucketKey>,
    },
}

/// Key of a bucket.
#[derive(Debug, Clone)]
pub struct BucketKey {
    pub id: SecretString,
    pub secret: SecretString,
}

/// Resolves the section. `how_to_set`: hint for a secret that is not set.
pub(super) fn resolve(
    (file, typed): (&Document, &TypedObjects),
    secrets: &Secrets<'_>,
    how_to_set: &dyn Fn(&str) -> String,
    problems: &mut Vec<Problem>,
) -> Option<ObjectSettings> {
    let before = problems.len();
    let mut report = |key: &str, message: String, hint: &str| {
        problems.push(
            file.problem_at(&format!("/objects/{key}"), message)
                .hint(hint),
        );
    };
    if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&typed.timeout) {
        let hint = "a peer waits ten minutes for the answer to its letter; `30s` is usual";
        report("timeout", "must be from `1s` to `5m`".to_owned(), hint);
    }
    if let Some(problem) = typed.endpoint.as_deref().and_then(endpoint_problem) {
        report("endpoint", problem.0, problem.1);
    }
    let place = match place(&typed.url) {
        Ok(place) => place,
        Err((message, hint)) => {
            report("url", message, hint);
            return None;
        }
    };
    let place = match place {
        ObjectPlace::Bucket { name, prefix, .. } => {
            let mut of = |variable: &str| {
                let value = secrets.get(variable);
                if value.is_none() {
                    let message = format!("{variable} is not set, and a bucket needs it");
                    report("url", message, &how_to_set(variable));
                }
                value
            };
            let (id, secret) = (of(OBJECTS_KEY_ID), of(OBJECTS_SECRET_KEY));
            let key = id.zip(secret).map(|(id, secret)| BucketKey { id, secret });
            let key = key.filter(|key| !is_stand_in(&key.secret));
            ObjectPlace::Bucket { name, prefix, key }
        }
        folder @ ObjectPlace::Folder(_) => folder,
    };
    (problems.len() == before).then(|| ObjectSettings {
        url: typed.url.clone(),
        region: typed.region.clone(),
        endpoint: typed.endpoint.clone(),
        bytes_min: usize::try_from(typed.bytes_min).unwrap_or(usize::MAX),
        timeout: typed.timeout,
        place,
    })
}

/// Parses the URL; the error is a message and a hint.
fn place(text: &str) -> Result<ObjectPlace, (String, &'static str)> {
    let hint = "write `s3://BUCKET/PREFIX`, or `file:///FOLDER` with an absolute path";
    let Ok(url) = reqwest::Url::parse(text) else {
        return Err((format!("`{text}` is not a URL"), hint));
    };
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        // It may hold a secret, so it is not shown.
        let message = "a URL of objects holds no key and no options".to_owned();
        return Err((
            message,
            "put the key into `.secrets`, as ATTACHE_OBJECTS_KEY_ID and ATTACHE_OBJECTS_SECRET_KEY",
        ));
    }
    match (url.scheme(), url.host_str()) {
        ("file", None | Some("")) => match url.to_file_path() {
            Ok(folder) if folder.parent().is_some() => Ok(ObjectPlace::Folder(folder)),
            _ => Err((format!("`{text}` names no folder"), hint)),
        },
        ("s3", Some(bucket)) if url.port().is_none() => Ok(ObjectPlace::Bucket {
            name: bucket.to_owned(),
            prefix: url.path().trim_matches('/').to_owned(),
            key: None,
        }),
        _ => Err((
            format!("`{text}` is neither a bucket nor a folder of this machine"),
            hint,
        )),
    }
}

fn endpoint_problem(text: &str) -> Option<(String, &'static str)> {
    let hint = "write one such as `https://minio.example:9000`";
    let url = reqwest::Url::parse(text).ok();
    let Some((url, host)) = url
        .as_ref()
        .and_then(|url| Some((url, url.host_str()?.to_owned())))
    else {
        return Some((format!("`{text}` is not a URL"), hint));
    };
    match url.scheme() {
        "https" => None,
        // The key signs and is not sent; the letters are.
        "http" if may_speak_http(&host, true) => None,
        "http" => Some((
            format!("`http` would send letters in plain text to `{host}`"),
            "use `https`",
        )),
        _ => Some((format!("`{text}` is not an https URL"), hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_or_an_absolute_folder_and_holds_no_key() {
        let shown = |text: &str| match place(text) {
            Ok(ObjectPlace::Folder(path)) => path.display().to_string(),
            Ok(ObjectPlace::Bucket { name, prefix, .. }) => format!("{name} {prefix}"),
            Err((message, _)) => message,
        };
        assert_eq!(shown("file:///srv/objects"), "/srv/objects");
        assert_eq!(shown("s3://mail/cell-1/"), "mail cell-1");
        assert_eq!(shown("s3://mail"), "mail ");
        for bad in [
            "srv/objects",
            "file://host/srv",
            "file:///",
            "https://mail.test/x",
            "s3:///x",
        ] {
            assert!(place(bad).is_err(), "{bad}");
        }
        assert!(!shown("s3://id:hunter2@mail/x").contains("hunter2"));
    }

    #[test]
    fn plain_http_stays_in_the_network() {
        for good in [
            "https://s3.example",
            "http://127.0.0.1:9000",
            "http://10.0.0.7:9000",
        ] {
            assert_eq!(endpoint_problem(good), None);
        }
        for bad in ["http://s3.example", "s3.example", "ftp://s3.example"] {
            assert!(endpoint_problem(bad).is_some(), "{bad}");
        }
    }
}
