//! Any bytes as a letter: read within its bounds, and what is read keeps its promises.
#![no_main]

use attache::mime::{ParseLimits, fresh_text, html_to_text, parse, safe_filename};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = ParseLimits::default();
    let Ok(email) = parse(bytes, &limits) else { return };
    assert!(email.references.len() <= limits.references_max);
    assert!(email.attachments.len() <= limits.parts_max);
    let mut names: Vec<&str> = email.attachments.iter().map(|a| a.filename.as_str()).collect();
    for name in &names {
        assert!(!name.is_empty() && !name.contains(['/', '\\', '\0']) && *name != "." && *name != "..");
        assert_eq!(safe_filename(name), *name, "a safe name stays as it is");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), email.attachments.len(), "names are unique");
    if let Some(sender) = email.sender() {
        assert_eq!(email.from_header_count, 1);
        assert!(sender.to_string().is_ascii());
    }
    assert!(!email.subject.contains(['\r', '\n']));
    for id in email.mentioned_ids().iter().copied().chain(email.message_id.as_deref()) {
        assert!(!id.is_empty() && !id.contains(['\r', '\n', '<', '>']), "id {id:?}");
    }
    let _own_words = fresh_text(&email.text, &email.subject);
    if let Some(html) = &email.html {
        let _readable = html_to_text(html);
    }
});
