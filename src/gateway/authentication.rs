//! Explains a failed TLS handshake with a server, in words for an operator.
//!
//! Absent on purpose: any decision. rustls and the system's certificate authorities decide; this
//! file only words the error.

use rustls::{CertificateError, Error};
use std::io;

const EXPIRED: &str = "the server's certificate has expired";
const NOT_YET_VALID: &str = "the server's certificate is not valid yet";
const OTHER_NAME: &str = "the server's certificate is for another name";
const UNKNOWN_ISSUER: &str =
    "the server's certificate is signed by nobody whom this machine trusts";

/// Reason of a failed handshake; rustls' own words where nothing better is known.
pub fn why_no_tls(error: &io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        // A root with the right name and another key yields a bad signature.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            UNKNOWN_ISSUER.to_owned()
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => EXPIRED.to_owned(),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => NOT_YET_VALID.to_owned(),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => OTHER_NAME.to_owned(),
        // webpki's error has no type that could be matched here.
        Some(Error::InvalidCertificate(CertificateError::Other(other)))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            "the server shows an authority's certificate as its own; one that is self-signed needs `CA:FALSE`"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// Remedy for the operator, by the words of [`why_no_tls`]; `None`: the certificate is not the reason.
pub fn certificate_remedy(words: &str) -> Option<&'static str> {
    let remedies = [
        (
            EXPIRED,
            "its operator must renew it; see that the clock of this machine is right",
        ),
        (
            NOT_YET_VALID,
            "see that the clock of this machine is right: the certificate begins later",
        ),
        (
            OTHER_NAME,
            "name the host as its certificate does: the provider's pages have that name",
        ),
        (
            UNKNOWN_ISSUER,
            "SSL_CERT_FILE names an authority of your own; a program that looks into mail (a virus scanner) may stand between",
        ),
    ];
    let is_reason = |(reason, _): &&(&str, &str)| words.contains(reason);
    remedies.iter().find(is_reason).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::OtherError;
    use std::sync::Arc;

    fn message(error: CertificateError) -> String {
        why_no_tls(&io::Error::new(
            io::ErrorKind::InvalidData,
            Error::InvalidCertificate(error),
        ))
    }

    #[test]
    fn what_an_operator_can_mend_is_said_in_words() {
        for error in [
            CertificateError::UnknownIssuer,
            CertificateError::BadSignature,
        ] {
            assert!(message(error).contains("signed by nobody whom this machine trusts"));
        }
        let authority = rustls::OtherError(Arc::new(io::Error::other("CaUsedAsEndEntity")));
        assert!(message(CertificateError::Other(authority)).contains("needs `CA:FALSE`"));
    }

    #[test]
    fn each_reason_has_its_own_remedy() {
        for (error, remedy) in [
            (CertificateError::Expired, "renew it"),
            (CertificateError::NotValidYet, "the clock of this machine"),
            (CertificateError::NotValidForName, "name the host"),
            (CertificateError::UnknownIssuer, "SSL_CERT_FILE"),
        ] {
            let found = certificate_remedy(&format!("no TLS: {}", message(error)));
            assert!(
                found.is_some_and(|found| found.contains(remedy)),
                "{found:?}"
            );
        }
        assert_eq!(certificate_remedy("no reply within 10s"), None);
    }

    #[test]
    fn what_is_not_known_keeps_the_words_it_came_with() {
        assert_eq!(
            message(CertificateError::Revoked),
            "invalid peer certificate: Revoked"
        );
        assert_eq!(
            why_no_tls(&io::Error::other("the line broke")),
            "the line broke"
        );
        let other = OtherError(Arc::new(io::Error::other("something else")));
        assert!(message(CertificateError::Other(other)).contains("something else"));
    }
}
