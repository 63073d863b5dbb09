//! A URL that may be asked, as far as its text tells. Pure: its addresses are looked at later (`fetcher`).

use reqwest::Url;

/// Longest URL in bytes.
const URL_BYTES_MAX: usize = 2_000;

/// A URL whose text permits asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebTarget {
    pub url: Url,
    /// Host in lower case, without a dot at its end; an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    /// `true`: the operator has opened this host and port, so its addresses may be private.
    pub is_opened: bool,
}

/// Reason why a URL is not asked, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlRefusal(pub String);

impl WebTarget {
    /// Reads a URL; `opened` are the private targets of the operator as `host:port`.
    pub fn parse(text: &str, opened: &[String]) -> Result<Self, UrlRefusal> {
        let refused = |why: &str| Err(UrlRefusal(why.to_owned()));
        let text = text.trim();
        if text.len() > URL_BYTES_MAX {
            return refused("the URL is longer than 2000 bytes");
        }
        // The parser would leave tabs and line ends out without a word.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refused("the URL holds a space or a control character; write it as `%20`");
        }
        let Ok(url) = Url::parse(text) else {
            return refused("it is no URL; write it whole, such as `https://www.example.com/page`");
        };
        Self::from_url(url, opened)
    }

    /// Returns the target of a redirect.
    pub fn redirected(&self, location: &str, opened: &[String]) -> Result<Self, UrlRefusal> {
        match self.url.join(location) {
            Ok(url) => Self::from_url(url, opened),
            Err(_) => Err(UrlRefusal(
                "the page redirects to something that is no URL".to_owned(),
            )),
        }
    }

    /// Returns the target of a redirect with nothing of it checked: what a client does that follows redirects itself.
    pub(super) fn followed_blindly(&self, location: &str) -> Result<Self, UrlRefusal> {
        let joined = self.url.join(location).ok();
        let url = joined.filter(|url| url.has_host() && url.port_or_known_default().is_some());
        let url = url.ok_or_else(|| UrlRefusal("the page redirects to no page".to_owned()))?;
        Ok(Self {
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or_default(),
            is_opened: true,
            url,
        })
    }

    fn from_url(mut url: Url, opened: &[String]) -> Result<Self, UrlRefusal> {
        let refused = |why: &str| Err(UrlRefusal(why.to_owned()));
        if !matches!(url.scheme(), "http" | "https") {
            return refused("only http and https are fetched");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("a URL with a user name or a password is not fetched");
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        if host.is_empty() || url.set_host(Some(&host)).is_err() {
            return refused("the URL names no host");
        }
        url.set_fragment(None);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        // Both schemes have a default port, so there always is one.
        let port = url.port_or_known_default().unwrap_or_default();
        let is_opened = opened
            .iter()
            .any(|opened| *opened == format!("{host}:{port}"));
        if !is_opened && !matches!(port, 80 | 443) {
            return Err(UrlRefusal(format!(
                "port {port} is not fetched: only 80 and 443, and what the operator has opened in `private_targets`"
            )));
        }
        Ok(Self {
            url,
            host,
            port,
            is_opened,
        })
    }
}

/// Returns the target of an address that the operator wrote, to be opened for it alone; `None`: it is no address of the web.
pub fn own_target(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let port = url.port_or_known_default()?;
    private_target(&format!("{}:{port}", url.host_str()?))
}

/// Returns a target of the operator in the form in which it is compared; `None`: it is no `host:port`.
pub fn private_target(typed: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{typed}/")).ok()?;
    let (host, port) = typed.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let is_bare = url.username().is_empty() && url.path() == "/" && url.query().is_none();
    let is_named = !host.is_empty() && !host.ends_with('.');
    let host = url
        .host_str()?
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    (is_bare && is_named).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_may_not_be_is_refused_with_the_reason() {
        let cases = [
            ("file:///etc/passwd", "only http and https"),
            ("gopher://a.example/", "only http and https"),
            ("ftp://a.example/", "only http and https"),
            ("data:text/plain,x", "only http and https"),
            ("javascript:alert(1)", "only http and https"),
            ("unix:/run/x.sock", "only http and https"),
            ("https://me@a.example/", "user name"),
            ("https://me:you@a.example/", "user name"),
            ("https://a.example:25/", "port 25"),
            ("http://a.example:6379/", "port 6379"),
            ("http://a.example/\r\nHELO x", "control character"),
            ("http://a.example/a b", "a space"),
            ("/page", "no URL"),
            ("a.example", "no URL"),
            ("http://", "no URL"),
        ];
        for (url, why) in cases {
            let refusal = WebTarget::parse(url, &[]).expect_err(url).0;
            assert!(refusal.contains(why), "{url}: {refusal}");
        }
        let long = format!("https://a.example/{}", "x".repeat(2000));
        assert!(WebTarget::parse(&long, &[]).is_err());
    }

    #[test]
    fn the_same_host_is_one_name_however_it_is_written() {
        let read = |text: &str| WebTarget::parse(text, &[]).expect(text);
        assert_eq!(
            read("HTTPS://A.Example./p#f").url.as_str(),
            "https://a.example/p"
        );
        assert_eq!(read("http://bücher.example/").host, "xn--bcher-kva.example");
        for loopback in [
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "①②⑦.⓪.⓪.①",
            "127。0。0。1",
        ] {
            assert_eq!(
                read(&format!("http://{loopback}/")).host,
                "127.0.0.1",
                "{loopback}"
            );
        }
        assert_eq!(read("http://[::1]/").host, "::1");
    }

    #[test]
    fn one_host_with_one_port_is_opened_and_no_other() {
        let opened: Vec<String> = ["127.0.0.1:8080", "wiki.lan:80"]
            .map(|typed| private_target(typed).expect(typed))
            .into();
        let read = |text: &str| WebTarget::parse(text, &opened);
        assert!(read("http://127.0.0.1:8080/a").is_ok_and(|target| target.is_opened));
        assert!(read("http://WIKI.lan/a").is_ok_and(|target| target.is_opened));
        assert!(read("https://wiki.lan/a").is_ok_and(|target| !target.is_opened));
        assert!(read("http://127.0.0.1:8081/").is_err());
        assert!(read("http://127.0.0.1/").is_ok_and(|target| !target.is_opened));
        for typed in [
            "wiki.lan",
            "http://wiki.lan:80",
            "wiki.lan:x",
            "me@wiki.lan:80",
            ":80",
            "wiki.lan:80/a",
        ] {
            assert_eq!(private_target(typed), None, "{typed}");
        }
        assert_eq!(private_target("[::1]:80").as_deref(), Some("::1:80"));
    }
}
