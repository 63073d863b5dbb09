//! Any bytes as a bounce: read within its bounds, and every fact in the form that it promises.
#![no_main]

use attache::domain::DIAGNOSTIC_CHARS_MAX;
use attache::mime::{ParseLimits, read_report};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(report) = read_report(bytes, &ParseLimits::default()) else { return };
    assert!(report.recipients.len() <= 100);
    let mut addresses: Vec<_> = report.recipients.iter().map(|r| r.address.to_ascii_lowercase()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), report.recipients.len(), "each address once");
    for recipient in &report.recipients {
        assert!(recipient.diagnostic.chars().count() <= DIAGNOSTIC_CHARS_MAX);
        assert!(!recipient.diagnostic.contains(['\r', '\n']), "{:?}", recipient.diagnostic);
        assert!(!recipient.address.contains(['<', '>', '\r', '\n', '\0']), "{:?}", recipient.address);
        assert!(recipient.code.is_none_or(|code| (400..600).contains(&code)), "{:?}", recipient.code);
        if let Some(status) = &recipient.status {
            let numbers: Vec<_> = status.split('.').map(|n| n.parse::<u16>()).collect();
            assert!(numbers.len() == 3 && numbers.iter().all(Result::is_ok), "{status:?}");
        }
    }
    if let Some(id) = &report.original_message_id {
        assert!(!id.contains(['<', '>', '\r', '\n']), "{id:?}");
    }
});
