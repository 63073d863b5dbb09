//! Explains a failed TLS handshake with a server, in words for an operator.
//!
//! Absent on purpose: any decision. rustls and the system's certificate authorities decide; this
//! file only words the error.

use rustls::{CertificateError, Error};
use std::io;

/// Reason of a failed handshake; rustls' own words where nothing better is known.
pub fn why_no_tls(error: &io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        // A root with the right name and another key yields a bad signature.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "the server's certificate is signed by nobody whom this machine trusts".to_owned()
        }
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
    fn what_is_not_known_keeps_the_words_it_came_with() {
        assert_eq!(
            message(CertificateError::Expired),
            "invalid peer certificate: Expired"
        );
        assert_eq!(
            why_no_tls(&io::Error::other("the line broke")),
            "the line broke"
        );
        let other = OtherError(Arc::new(io::Error::other("something else")));
        assert!(message(CertificateError::Other(other)).contains("something else"));
    }
}
