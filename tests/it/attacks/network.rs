//! A network of a play's own: public addresses, a name server and servers that nobody can leave. It is a namespace of the
//! kernel (network_namespaces(7)), so no guard needs to be told what counts as public: real names, real addresses, port 80.

use super::effects::Seen;
use crate::dns::{DnsStub, Record};
use crate::web::servers::{Site, Then, page};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::Command;

/// Set inside of the namespace.
const INSIDE: &str = "ATTACHE_NETWORK_NAMESPACE";
/// Addresses that belong to this machine there: public ones, and some at which only machines of a network or a cloud answer.
const ADDRESSES: [&str; 9] = [
    "93.184.216.34/32",
    "93.184.216.35/32",
    "93.184.216.36/32",
    "93.184.216.37/32",
    "10.0.0.1/32",
    "169.254.169.254/32",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "fd00:ec2::254/128",
];
/// Where a proxy listens, if a program asks one.
pub const PROXY: &str = "127.0.0.1:3128";

/// Names and servers of a play.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Name -> addresses: the n-th question is answered by the n-th list, all later ones by the last.
    #[serde(default)]
    names: BTreeMap<String, Vec<Vec<std::net::Ipv4Addr>>>,
    /// Address with port -> what is sent to whoever connects.
    #[serde(default)]
    servers: BTreeMap<SocketAddr, ServerPlan>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ServerPlan {
    /// Text of a page.
    page: Option<String>,
    /// Whole answer, in place of a page.
    answer: Option<String>,
    /// Sent after it until the client goes away.
    repeat: Option<String>,
}

pub struct Network {
    dns: DnsStub,
    sites: Vec<(SocketAddr, Site)>,
}

impl Network {
    pub async fn start(plan: &NetworkPlan) -> Self {
        assert!(is_inside(), "a play with a network is for the namespace");
        let dns = DnsStub::at("127.0.0.1:53").await;
        for (name, lists) in &plan.names {
            dns.add(name, Record::Turns(lists.clone()));
        }
        let mut sites = Vec::new();
        for (address, server) in &plan.servers {
            let text = server.page.as_deref().unwrap_or_default();
            let answer = server
                .answer
                .clone()
                .unwrap_or_else(|| page("text/plain", text));
            let then = match &server.repeat {
                Some(bytes) => Then::Repeat(bytes.repeat(1 + 65_536 / bytes.len()).leak()),
                None => Then::Close,
            };
            sites.push((*address, Site::at(*address, &answer, then).await));
        }
        Self { dns, sites }
    }

    /// Looks at everything that was asked, and frees the addresses for the next play.
    pub async fn end(self, seen: &mut Seen) {
        seen.asked = self.dns.asked();
        self.dns.stop().await;
        for (address, site) in self.sites {
            let requests = site.requests().into_iter();
            let requests = requests.map(|request| (address.to_string(), request.to_lowercase()));
            seen.connections.extend(requests);
            site.stop().await;
        }
    }
}

/// Reports whether this process is in the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Returns a command that starts a program in a new namespace, with the variables and the password file of somebody whose
/// requests go through a proxy. `Err`: why there is none.
pub fn inside(program: &OsStr) -> Result<(Command, tempfile::TempDir), String> {
    let mut command = unshared(program)?;
    let home = tempfile::tempdir().expect("a temporary folder");
    let netrc = "default login olga password K_SECRET\n";
    std::fs::write(home.path().join(".netrc"), netrc).expect("a file");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env(name, format!("http://{PROXY}"));
    }
    command.env("HOME", home.path()).env(INSIDE, "1");
    Ok((command, home))
}

fn unshared(program: &OsStr) -> Result<Command, String> {
    let probe = with_unshare(OsStr::new("true"), "127.0.0.1").output();
    match probe {
        Ok(output) if output.status.success() => Ok(with_unshare(program, "127.0.0.1")),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("`unshare`: {error}")),
    }
}

fn with_unshare(program: &OsStr, server: &str) -> Command {
    let adds: String = ADDRESSES
        .iter()
        .map(|address| format!("ip addr add {address} dev lo\n"))
        .collect();
    let script = format!(
        "set -e\nip link set lo up\n{adds}\
         echo 'nameserver {server}\noptions timeout:1 attempts:1' > /tmp/resolv.conf.$$\n\
         mount --bind /tmp/resolv.conf.$$ /etc/resolv.conf\nrm /tmp/resolv.conf.$$\nexec \"$@\""
    );
    let mut command = Command::new("unshare");
    // Whoever is not root becomes so in a namespace of users.
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .args(["--net", "--mount", "sh", "-c", &script, "sh"])
        .arg(program);
    command
}
