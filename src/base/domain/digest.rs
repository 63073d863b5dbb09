//! SHA-256 in the format of the engine: lower-case hexadecimal text.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Returns the digest of the concatenated parts as 64 hexadecimal digits.
pub fn sha256_hex(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hex(&hash.finalize())
}

/// Formats bytes as lower-case hexadecimal digits, such as a digest that was computed piece by piece.
pub fn hex(bytes: &[u8]) -> String {
    let text = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(text, |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a number that is equal for equal texts and spread evenly over different ones: jitter
/// without a random source.
pub fn stable_seed(text: &str) -> u64 {
    Sha256::digest(text.as_bytes())
        .iter()
        .take(8)
        .fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hash_as_their_concatenation() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(&[b"a", b"bc"]), abc);
        assert_ne!(stable_seed("a"), stable_seed("b"));
    }
}
