//! The header by which a receiver knows us (Standard Webhooks 1.0.0, "Webhook signature").

use crate::config::WebhookKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Returns the signatures of all keys, separated by spaces: while a key is replaced, a receiver may know either.
pub fn signatures(keys: &[WebhookKey], id: &str, timestamp_s: i64, body: &str) -> String {
    let signed: Vec<String> = keys
        .iter()
        .map(|key| signature(key, id, timestamp_s, body))
        .collect();
    signed.join(" ")
}

fn signature(key: &WebhookKey, id: &str, timestamp_s: i64, body: &str) -> String {
    let mut mac = keyed(key.bytes());
    mac.update(format!("{id}.{timestamp_s}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// HMAC with a key of any length. `new_from_slice` would return an error that never happens: a key longer than a block is
/// replaced by its digest (RFC 2104 section 2), and ours have at most one block.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    for (at, byte) in block.iter_mut().zip(key) {
        *at = *byte;
    }
    Hmac::<Sha256>::new(&block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the specification's reference libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let key = WebhookKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let body = r#"{"test": 2432232314}"#;
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        assert_eq!(
            signatures(&[key.clone(), key], id, 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
