//! Any text as an address: what is legal is plain ASCII, has one spelling, and comes back the same.
#![no_main]

use attache::domain::Address;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(address) = Address::parse(text) else { return };
    let spelled = address.to_string();
    assert!(spelled.is_ascii() && spelled.len() <= 254 + 64, "{spelled:?}");
    assert!(!spelled.contains(|c: char| c.is_ascii_control()), "{spelled:?}");
    assert!(!address.domain().is_empty() && !address.domain().contains(['@', ' ', '<', '>']));
    assert_eq!(address.domain(), address.domain().to_ascii_lowercase());
    let again = Address::parse(&spelled).expect("a spelled address is legal");
    assert_eq!(again, address);
    assert_eq!(again.key(), address.key());
    assert_eq!(address.key(), address.key().to_ascii_lowercase());
});
