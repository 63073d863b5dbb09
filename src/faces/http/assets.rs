//! Style and script of the pages, in the binary, by names that change with them.

use crate::domain::sha256_hex;
use std::sync::LazyLock;

const STYLE: &[u8] = include_bytes!("assets/pages.css");
const SCRIPT: &[u8] = include_bytes!("assets/pages.js");

/// One file, with its digest in its name: a browser keeps it for good.
pub(super) struct Asset {
    pub name: String,
    pub kind: &'static str,
    pub bytes: &'static [u8],
}

pub(super) static ASSETS: LazyLock<[Asset; 2]> = LazyLock::new(|| {
    let asset = |ending: &str, kind, bytes: &'static [u8]| Asset {
        name: format!("pages.{:.16}.{ending}", sha256_hex(&[bytes])),
        kind,
        bytes,
    };
    [
        asset("css", "text/css; charset=utf-8", STYLE),
        asset("js", "text/javascript; charset=utf-8", SCRIPT),
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_stays_small_and_its_name_changes_with_it() {
        assert!(SCRIPT.len() <= 6 * 1024, "{} bytes", SCRIPT.len());
        assert_ne!(ASSETS[0].name, ASSETS[1].name);
        assert!(ASSETS[1].name.starts_with("pages.") && ASSETS[1].name.ends_with(".js"));
    }
}
