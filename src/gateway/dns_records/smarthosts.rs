//! SPF names of providers whose servers send mail for their customers.
//!
//! The server that takes a mail is not the one that passes it on, so that its address says nothing;
//! providers publish the addresses of the latter under one name, for `include`. From their public
//! pages, November 2026.

/// Ends of names of submission servers, and the SPF name of their provider.
const INCLUDES: [(&str, &str); 10] = [
    ("gmail.com", "_spf.google.com"),
    ("fastmail.com", "spf.messagingengine.com"),
    ("office365.com", "spf.protection.outlook.com"),
    ("outlook.com", "spf.protection.outlook.com"),
    ("mailbox.org", "mailbox.org"),
    ("migadu.com", "spf.migadu.com"),
    ("amazonaws.com", "amazonses.com"),
    ("sendgrid.net", "sendgrid.net"),
    ("mailgun.org", "mailgun.org"),
    ("postmarkapp.com", "spf.mtasv.net"),
];

/// The SPF name that permits mail through a submission server; `None` where its provider is unknown.
pub fn include(host: &str) -> Option<&'static str> {
    let host = host.to_ascii_lowercase();
    let found = INCLUDES.iter().find(|(end, _)| is_below(&host, end));
    found.map(|(_, include)| *include)
}

/// Reports whether a host stands below a domain; both in lower case.
pub fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|front| front.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_known_by_the_end_of_its_servers_name() {
        assert_eq!(include("smtp.Gmail.com"), Some("_spf.google.com"));
        assert_eq!(
            include("email-smtp.eu-west-1.amazonaws.com"),
            Some("amazonses.com")
        );
        for other in ["smtp.notgmail.com", "gmail.com.evil.test", "relay.example"] {
            assert_eq!(include(other), None, "{other}");
        }
    }
}
