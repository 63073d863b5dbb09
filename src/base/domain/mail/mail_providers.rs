//! Domains at which a provider gives mailboxes to everybody: their addresses have nothing in common but the provider, nobody who
//! has one can publish a record there, and no other server receives their mail.

static MAIL_PROVIDERS: &[&str] = &[
    "126.com",
    "163.com",
    "aol.com",
    "bluewin.ch",
    "fastmail.com",
    "fastmail.fm",
    "free.fr",
    "gmail.com",
    "gmx.at",
    "gmx.ch",
    "gmx.com",
    "gmx.de",
    "gmx.net",
    "googlemail.com",
    "hey.com",
    "hotmail.co.uk",
    "hotmail.com",
    "hotmail.de",
    "hotmail.fr",
    "hotmail.it",
    "icloud.com",
    "laposte.net",
    "libero.it",
    "live.com",
    "live.de",
    "live.fr",
    "mac.com",
    "mail.com",
    "mail.ru",
    "mailbox.org",
    "me.com",
    "msn.com",
    "naver.com",
    "o2.pl",
    "orange.fr",
    "outlook.com",
    "outlook.de",
    "outlook.fr",
    "posteo.de",
    "posteo.net",
    "proton.me",
    "protonmail.com",
    "qq.com",
    "seznam.cz",
    "t-online.de",
    "tuta.com",
    "tutanota.com",
    "wanadoo.fr",
    "web.de",
    "wp.pl",
    "yahoo.co.jp",
    "yahoo.co.uk",
    "yahoo.com",
    "yahoo.de",
    "yahoo.es",
    "yahoo.fr",
    "yahoo.it",
    "yandex.ru",
    "ymail.com",
    "ziggo.nl",
    "zoho.com",
];

/// Reports whether a domain, in lower case, is a provider's, for mailboxes of everybody.
pub fn is_mail_provider(domain: &str) -> bool {
    MAIL_PROVIDERS.binary_search(&domain).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_found_and_nothing_below_or_beside_them() {
        assert!(MAIL_PROVIDERS.is_sorted());
        assert!(MAIL_PROVIDERS.iter().all(|domain| is_mail_provider(domain)));
        for other in [
            "guest.example",
            "mail.gmail.com",
            "notgmail.com",
            "gmail.com.evil.test",
            "gmail",
            "",
        ] {
            assert!(!is_mail_provider(other), "{other}");
        }
    }
}
