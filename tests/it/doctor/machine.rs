//! Installations that are broken by their machine: ports, certificates, the clock, the disk.

use super::Case;
use super::house::{House, Made, NOBODY, broken, has, is_root, kept};
use serde_json::json;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

pub static CASES: &[Case] = &[
    Case::fault(
        "a port of another program",
        "listeners",
        &[
            "configs/gateway.json:",
            "listens on 127.0.0.1:",
            "(process ",
        ],
        "another address",
        |house| {
            let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
            house.gateway(
                "/listeners/0/address",
                json!(taken.local_addr().expect("an address").to_string()),
            );
            kept(taken)
        },
    ),
    Case::fault(
        "a port of the pages is taken",
        "listeners",
        &["configs/gateway.json:", "listens on 127.0.0.1:"],
        "another address",
        |house| {
            let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = taken.local_addr().expect("an address").to_string();
            house.gateway(
                "/listeners/1",
                json!({ "kind": "http", "address": address }),
            );
            kept(taken)
        },
    ),
    Case::fault(
        "a port that needs a right",
        "listeners",
        &["cannot listen on 127.0.0.1:25", "ermission denied"],
        "cap_net_bind_service",
        low_port,
    ),
    Case::fault(
        "an address of elsewhere",
        "listeners",
        &["cannot listen on 203.0.113.7:2525"],
        "`ip address`",
        |house| house.gateway("/listeners/0/address", json!("203.0.113.7:2525")),
    ),
    Case::fault(
        "a file in the place of a socket",
        "listeners",
        &["lmtp.sock is no socket"],
        "move the file away",
        |house| house.write("run/lmtp.sock", ""),
    ),
    Case::fault(
        "a socket of another program",
        "listeners",
        &["another program listens on unix:"],
        "`ss -lntxp`",
        |house| kept(UnixListener::bind(house.path().join("run/lmtp.sock")).expect("a socket")),
    ),
    Case::fault(
        "a certificate that has ended",
        "certificates",
        &["configs/gateway.json:", "ended at 2026-01-01"],
        "renew",
        |house| house.certificate("house.test", (2025, 2026)),
    ),
    Case::fault(
        "a certificate of the future",
        "certificates",
        &["begins only at 2099-01-01"],
        "clock",
        |house| house.certificate("house.test", (2099, 2100)),
    ),
    Case::warning(
        "a certificate that ends soon",
        "certificates",
        &["in 4 days"],
        "renewed",
        |house| house.certificate_for(5),
    ),
    Case::warning(
        "a certificate of another host",
        "certificates",
        &["does not name `house.test`"],
        "host_name",
        |house| house.certificate("mail.other.test", (2026, 2100)),
    ),
    Case::fault(
        "a key of another certificate",
        "certificates",
        &["configs/gateway.json:", "cannot be used"],
        "exchanged",
        |house| {
            let certificate = house.read("tls/cert.pem");
            house.certificate("house.test", (2026, 2100));
            house.write("tls/cert.pem", &certificate)
        },
    ),
    Case::fault(
        "no certificate",
        "certificates",
        &["there is no file `tls/cert.pem`"],
        "PEM file",
        |house| house.remove("tls/cert.pem"),
    ),
    Case::fault(
        "a key that is none",
        "certificates",
        &["key.pem"],
        "PEM file",
        |house| house.write("tls/key.pem", "nothing\n"),
    ),
    Case::warning(
        "a TLS key that everybody may read",
        "certificates",
        &["everybody on this machine may read the private key", "0644"],
        "chmod 640",
        |house| house.chmod("tls/key.pem", 0o644),
    ),
    Case::fault(
        "a DKIM key that others may read",
        "certificates",
        &["outbound.dkim"],
        "chmod",
        dkim_key,
    ),
    Case::fault(
        "a clock that went back",
        "clock",
        &["the clock went back"],
        "timedatectl",
        |house| {
            house.sql(
                "INSERT INTO feed (kind, at) VALUES ('notice.opened', '2099-01-01T00:00:00.000Z')",
            )
        },
    ),
    Case::fault(
        "a clock that is a day behind",
        "clock",
        &["the clock went back"],
        "timedatectl",
        |house| {
            if !has("faketime") {
                return Made::Skipped("libfaketime is not installed".to_owned());
            }
            *house.wrapper.borrow_mut() = ["faketime", "-f", "-1d"].map(str::to_owned).to_vec();
            broken()
        },
    ),
    Case::fault(
        "a full disk",
        "disk",
        &["letters are refused"],
        "make room",
        |house| {
            house.gateway(
                "/limits",
                json!({ "free_disk_bytes_min": 1_000_000_000_000_000_u64 }),
            )
        },
    ),
    Case::warning(
        "a disk that is nearly full",
        "disk",
        &["from", "letters are refused"],
        "make room",
        nearly_full,
    ),
    Case::warning(
        "a workspace in memory",
        "disk",
        &["tmpfs"],
        "on a disk",
        |house| {
            inside(
                house,
                "mount -t tmpfs none \"$house/data\" && cp -a \"$copy/.\" \"$house/data/\"",
            )
        },
    ),
    Case::fault(
        "a disk that is read-only",
        "disk",
        &["mounted read-only"],
        "remount,rw",
        |house| {
            inside(
                house,
                "mount --bind \"$house\" \"$house\" && mount -o remount,bind,ro \"$house\"",
            )
        },
    ),
    Case::fault(
        "a disk without inodes",
        "disk",
        &["more files (inodes)"],
        "df -i",
        |house| {
            let make = "truncate -s 512M \"$copy.img\" && mkfs.ext4 -q -N 128 \"$copy.img\" && mount -o loop \"$copy.img\" \"$house/data\"";
            inside(
                house,
                &format!(
                    "{make} && cp -a \"$copy/.\" \"$house/data/\" && rmdir \"$house/data/lost+found\""
                ),
            )
        },
    ),
];

/// As nobody, in a workspace of nobody's: root may bind any port.
fn low_port(house: &House) -> Made {
    let limit = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let limit: u16 = limit
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    if limit <= 25 || !is_root() || !has("setpriv") {
        return Made::Skipped("needs root, setpriv, and ports that need a right".to_owned());
    }
    house.gateway("/listeners/0/address", json!("127.0.0.1:25"));
    let path = house.path();
    let nobody = NOBODY.to_string();
    let given = Command::new("chown")
        .args(["-R", &nobody])
        .arg(&path)
        .status();
    assert!(given.expect("chown runs").success());
    let above = path.parent().expect("a folder");
    std::os::unix::fs::chown(above, Some(NOBODY), None).expect("root may");
    let ids = [
        format!("--reuid={nobody}"),
        format!("--regid={nobody}"),
        "--clear-groups".to_owned(),
    ];
    *house.wrapper.borrow_mut() = std::iter::once("setpriv".to_owned()).chain(ids).collect();
    broken()
}

fn dkim_key(house: &House) -> Made {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    house.write("tls/dkim.pem", &key.serialize_pem());
    let dkim = json!([{ "domain": "house.test", "selector": "a", "key": "tls/dkim.pem" }]);
    house.gateway("/outbound/dkim", dkim);
    house.chmod("tls/dkim.pem", 0o644)
}

/// Asks for more than half of what is free.
fn nearly_full(house: &House) -> Made {
    let free = attache::gateway::intake::free_disk_bytes(&house.path()).expect("a disk");
    house.gateway("/limits", json!({ "free_disk_bytes_min": free / 10 * 7 }))
}

/// Has `doctor` run behind a mount that no other process sees. Skipped where the machine does not let us.
pub fn inside(house: &House, mounts: &str) -> Made {
    let place = house.path();
    let data = place.join("data");
    let copy = place.parent().expect("a folder").join("copy");
    let copied = Command::new("cp").arg("-a").arg(data).arg(&copy).status();
    assert!(copied.expect("cp runs").success());
    let names = format!("house='{}'; copy='{}'", place.display(), copy.display());
    let script = format!("{names}; {mounts} && cd \"$house\"");
    let tried = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .output();
    match tried {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr).into_owned();
            return Made::Skipped(format!("no mounts of our own: {why}"));
        }
        Err(error) => return Made::Skipped(format!("unshare: {error}")),
    }
    let script = format!("{script} && exec \"$@\"");
    let words = ["unshare", "-m", "sh", "-c", &script, "sh"];
    *house.wrapper.borrow_mut() = words.map(str::to_owned).to_vec();
    broken()
}
