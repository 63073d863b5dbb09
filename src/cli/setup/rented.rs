//! Servers of providers at which a mailbox is rented, from their public pages of November 2026, as
//! `docs/guide/mail-providers.md` has them.

use super::asker::{Asker, NONE};
use super::flags::{
    AUTHSERV_ID, BOUNCE, IMAP_HOST, IMAP_PORT, IMAP_TLS, OTHER, SMTP_HOST, SMTP_PORT, SMTP_TLS,
    SetupQuestion,
};

/// Servers of a provider. Mail comes in over TLS at the usual port.
struct Rented {
    name: &'static str,
    imap_host: &'static str,
    smtp_host: &'static str,
    smtp_tls: &'static str,
    /// Name with which it begins its `Authentication-Results`, where it is one for all of its servers.
    authserv_id: &'static str,
}

const RENTED: [Rented; 4] = [
    Rented {
        name: "gmail",
        imap_host: "imap.gmail.com",
        smtp_host: "smtp.gmail.com",
        smtp_tls: "starttls",
        authserv_id: "mx.google.com",
    },
    Rented {
        name: "fastmail",
        imap_host: "imap.fastmail.com",
        smtp_host: "smtp.fastmail.com",
        smtp_tls: "implicit",
        authserv_id: NONE,
    },
    Rented {
        name: "mailbox.org",
        imap_host: "imap.mailbox.org",
        smtp_host: "smtp.mailbox.org",
        smtp_tls: "implicit",
        authserv_id: NONE,
    },
    Rented {
        name: "migadu",
        imap_host: "imap.migadu.com",
        smtp_host: "smtp.migadu.com",
        smtp_tls: "implicit",
        authserv_id: NONE,
    },
];
const SETTLED: [SetupQuestion; 8] = [
    IMAP_HOST,
    IMAP_PORT,
    IMAP_TLS,
    AUTHSERV_ID,
    SMTP_HOST,
    SMTP_PORT,
    SMTP_TLS,
    BOUNCE,
];

/// The name of the provider whose mailboxes are at that host.
pub fn name_of(imap_host: &str) -> String {
    let found = RENTED.iter().find(|rented| rented.imap_host == imap_host);
    found.map_or(OTHER, |rented| rented.name).to_owned()
}

/// Answers what follows from the name of a provider; of one that is none of these, nothing follows.
pub fn settle(asker: &mut Asker<'_>, name: &str) {
    let Some(rented) = RENTED.iter().find(|rented| rented.name == name) else {
        return asker.unsettle(&SETTLED);
    };
    let values = [
        rented.imap_host,
        NONE,
        "implicit",
        rented.authserv_id,
        rented.smtp_host,
        NONE,
        rented.smtp_tls,
        "plain",
    ];
    for (question, value) in SETTLED.into_iter().zip(values) {
        asker.settle(question, value);
    }
}
