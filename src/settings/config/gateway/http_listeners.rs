//! Listeners of kind `http` in `configs/gateway.json`: sockets that serve the pages and the API.
//!
//! What browsers may call such a listener is an exact list, by which a request through a name of somebody else's (DNS
//! rebinding) is refused. On loopback the list is known; by a name or through a proxy it is written down in `origins`.

use super::listeners::{
    ListenAddress, SmtpListener, TypedListener, TypedListenerKind, is_same, resolve_address,
    resolve_proxies,
};
use crate::config::values::net::{MailTls, domain};
use crate::config::values::section::*;
use crate::domain::Network;
use std::fmt;
use std::net::IpAddr;

/// Entry of `proxies` that stands for whoever connects to a Unix socket, as in the configuration of nginx.
static UNIX_PROXY: &str = "unix:";

/// A socket that serves the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpListener {
    /// Position in `listeners`, counted from 0.
    pub position: usize,
    pub address: ListenAddress,
    /// `true`: TLS from the first byte, with the listeners' certificate.
    pub is_tls: bool,
    /// Addresses by which browsers reach it through a proxy or by a name.
    pub origins: Vec<WebOrigin>,
    /// Proxies that alone may connect; empty: any peer.
    pub proxies: Vec<Network>,
    /// `true`: what connects to this Unix socket is a proxy, which says for whom it speaks.
    pub is_proxied: bool,
}

impl HttpListener {
    /// Returns the address that a browser uses: the first configured one, or that of the socket.
    pub fn url(&self) -> String {
        match (self.origins.first(), &self.address) {
            (Some(origin), _) => origin.to_string(),
            (None, ListenAddress::Unix { .. }) => WebOrigin::localhost().to_string(),
            (None, ListenAddress::Tcp(address)) => {
                let scheme = if self.is_tls { "https" } else { "http" };
                format!("{scheme}://{address}")
            }
        }
    }
}

/// Scheme and authority of a page's address, as a browser writes them in `Origin` (RFC 6454 section 6.1).
///
/// Invariant: lower case, without a default port, a path or a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin {
    pub is_https: bool,
    /// Host, and port where it is not the scheme's own, as browsers send them in `Host`.
    pub authority: String,
}

impl WebOrigin {
    /// Parses `https://name[:port]`; `None` when the text is anything else or more.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
            _ => (rest, None),
        };
        let host = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(inside) => match inside.parse::<IpAddr>().ok()? {
                IpAddr::V6(address) => format!("[{address}]"),
                IpAddr::V4(_) => return None,
            },
            None => match host.parse::<IpAddr>() {
                Ok(IpAddr::V4(address)) => address.to_string(),
                Ok(IpAddr::V6(_)) => return None,
                Err(_) if host == "localhost" => host.to_owned(),
                Err(_) => domain(host)?,
            },
        };
        Some(Self::new(is_https, &host, port))
    }

    /// Returns the origin by which a Unix socket is called, which has no address of its own.
    pub fn localhost() -> Self {
        Self::new(false, "localhost", None)
    }

    /// Returns the origin of a host, written as in a URL, and a port.
    pub fn new(is_https: bool, host: &str, port: Option<u16>) -> Self {
        let own = if is_https { 443 } else { 80 };
        let authority = match port {
            Some(port) if port != own => format!("{host}:{port}"),
            _ => host.to_owned(),
        };
        Self {
            is_https,
            authority,
        }
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// Resolves the listeners of kind `http`. Problems go to the context; the result is valid only without problems.
pub(super) fn resolve(
    typed: &[TypedListener],
    mail: &[SmtpListener],
    place: &mut CheckPlace<'_, '_>,
) -> Vec<HttpListener> {
    let mut listeners: Vec<HttpListener> = Vec::new();
    for (position, one) in typed.iter().enumerate() {
        if !matches!(one.kind, TypedListenerKind::Http) {
            continue;
        }
        let place = &mut place.under(position);
        let Some(listener) = resolve_one(position, one, place) else {
            continue;
        };
        let pages = listeners.iter().map(|other| &other.address);
        let mut others = mail.iter().map(|other| &other.address).chain(pages);
        if others.any(|other| is_same(other, &listener.address)) {
            place.complain("address", format!("`{}` is listened on twice", one.address));
        }
        check(&listener, place);
        listeners.push(listener);
    }
    listeners
}

fn resolve_one(
    position: usize,
    typed: &TypedListener,
    place: &mut CheckPlace<'_, '_>,
) -> Option<HttpListener> {
    for key in ["auth", "proxy_protocol"] {
        if place.has(key) {
            place.refuse_key(key, "has no meaning for kind `http`", "");
        }
    }
    if typed.tls == Some(MailTls::StartTls) {
        place.refuse("tls", "HTTP has no STARTTLS", "write `implicit`");
    }
    let address = resolve_address(typed, place)?;
    let origins = typed.origins.as_deref().unwrap_or_default();
    let origins = place.each("origins", origins, |text| {
        let hint =
            "write scheme and name, and a port where there is one: `https://attache.example.org`";
        let bad = || (format!("`{text}` is no address of pages"), hint.to_owned());
        WebOrigin::parse(text).ok_or_else(bad)
    });
    let (mut proxies, mut is_proxied) = (Vec::new(), false);
    match (&address, typed.proxies.as_deref()) {
        (ListenAddress::Tcp(_), typed) => proxies = resolve_proxies("proxies", typed, place),
        (ListenAddress::Unix { .. }, None) => {}
        // There is no address to compare with: the mode of the file says who may connect.
        (ListenAddress::Unix { .. }, Some([one])) if one == UNIX_PROXY => is_proxied = true,
        (ListenAddress::Unix { .. }, Some(_)) => place.refuse(
            "proxies",
            "whoever connects to a Unix socket has no address",
            "write `[\"unix:\"]` if it is a proxy, and let its group connect by `mode`; or leave the key out",
        ),
    }
    Some(HttpListener {
        position,
        address,
        is_tls: typed.tls == Some(MailTls::Implicit),
        origins,
        proxies,
        is_proxied,
    })
}

/// Reports a listener that would show mail in plain text on a network, or that no browser could use.
fn check(listener: &HttpListener, place: &mut CheckPlace<'_, '_>) {
    let has_certificate = place.file.has("/tls");
    let mut complain = |key: &str, message: &str, hint: &str| place.refuse(key, message, hint);
    let ListenAddress::Tcp(address) = &listener.address else {
        if listener.is_tls {
            complain(
                "tls",
                "nothing of a Unix socket crosses a network",
                "leave it out; the proxy in front has the certificate",
            );
        }
        return;
    };
    let ip = address.ip().to_canonical();
    let has_https = listener.origins.iter().any(|origin| origin.is_https);
    if listener.is_tls && !has_certificate {
        complain(
            "tls",
            "there is no certificate",
            "name its files in `tls` beside `listeners`",
        );
    }
    if !ip.is_loopback() && !listener.is_tls && listener.proxies.is_empty() {
        complain(
            "address",
            "mail and sessions would cross the network in plain text",
            "listen on 127.0.0.1, or set `\"tls\": \"implicit\"`, or name in `proxies` the proxy with TLS that alone may connect",
        );
    } else if !listener.proxies.is_empty() && !has_https && !ip.is_loopback() {
        complain(
            "proxies",
            "browsers would speak to this proxy in plain text",
            "name the address that they use in `origins`, such as `https://attache.example.org`",
        );
    } else if ip.is_unspecified() && listener.origins.is_empty() {
        complain(
            "address",
            "browsers need a name for it",
            "name the address that they use in `origins`, such as `https://attache.example.org`",
        );
    }
    if listener
        .origins
        .iter()
        .any(|origin| !origin.is_https && !ip.is_loopback())
    {
        complain(
            "origins",
            "pages on a network need `https`",
            "write `https://` and the name",
        );
    }
}

/// JSON of a listener for `attache config show`.
pub fn show(listener: &HttpListener) -> Value {
    let mut proxies = texts(&listener.proxies);
    proxies.extend(listener.is_proxied.then(|| UNIX_PROXY.to_owned()));
    json!({
        "kind": "http",
        "address": listener.address.to_string(),
        "mode": listener.address.formatted_mode(),
        "tls": if listener.is_tls { "implicit" } else { "none" },
        "origins": texts(&listener.origins),
        "proxies": proxies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_write_them_and_nothing_else_is() {
        let read = |text: &str| WebOrigin::parse(text).map(|origin| origin.to_string());
        for (text, origin) in [
            ("https://Attache.Example.org", "https://attache.example.org"),
            ("https://a.example:443", "https://a.example"),
            ("https://a.example:8443", "https://a.example:8443"),
            ("http://127.0.0.1:8025", "http://127.0.0.1:8025"),
            ("http://[::1]:8025", "http://[::1]:8025"),
            ("http://localhost:80", "http://localhost"),
        ] {
            assert_eq!(read(text).as_deref(), Some(origin), "{text}");
        }
        for text in [
            "attache.example.org",
            "https://a.example/",
            "https://u@a.example",
            "ftp://a.example",
            "https://a.example:x",
            "https://::1",
            "https://",
            "https://[127.0.0.1]",
            "null",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
