//! A name server on a UDP socket of loopback that answers from zones made up by a test, stays silent where the zone
//! says so, and remembers what it was asked.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub enum Record {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Mx(u16, String),
    /// The character strings of one record, each of at most 255 octets.
    Txt(Vec<Vec<u8>>),
    Ptr(String),
    /// Addresses by turns: the n-th question is answered by the n-th list, all later ones by the last.
    Turns(Vec<Vec<Ipv4Addr>>),
    Cname(String),
    /// Questions that no other record of the name answers get no answer at all.
    Silent,
    /// Questions that no other record of the name answers get SERVFAIL.
    ServFail,
}

/// Name in lower case without a final dot -> its records.
pub type Zone = HashMap<String, Vec<Record>>;

/// The server; it stops when it is dropped.
pub struct DnsStub {
    pub address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

const NO_ERROR: u8 = 0;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const CNAME: u16 = 5;

impl DnsStub {
    pub async fn start() -> Self {
        Self::at("127.0.0.1:0").await
    }

    pub async fn at(address: &str) -> Self {
        let socket = UdpSocket::bind(address).await.expect("a socket");
        let address = socket.local_addr().expect("its address");
        let (zone, asked) = (
            Arc::new(Mutex::new(Zone::new())),
            Arc::new(Mutex::new(Vec::new())),
        );
        let serving = tokio::spawn(serve(socket, zone.clone(), asked.clone()));
        Self {
            address,
            zone,
            asked,
            serving,
        }
    }

    /// Frees the address.
    pub async fn stop(mut self) {
        self.serving.abort();
        // It was cancelled.
        let _ended = (&mut self.serving).await;
    }

    pub fn set(&self, zone: Zone) {
        *self.zone.lock().expect("the zone") = zone;
    }

    pub fn add(&self, name: &str, record: Record) {
        let mut zone = self.zone.lock().expect("the zone");
        zone.entry(name.to_ascii_lowercase())
            .or_default()
            .push(record);
    }

    /// Replaces the records of one name.
    pub fn set_name(&self, name: &str, records: Vec<Record>) {
        let mut zone = self.zone.lock().expect("the zone");
        zone.insert(name.to_ascii_lowercase(), records);
    }

    /// A TXT record of any length.
    pub fn txt(&self, name: &str, text: &str) {
        self.add(name, txt(text.as_bytes()));
    }

    /// `name TYPE-NUMBER` of every question so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the questions").clone()
    }
}

impl Drop for DnsStub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub fn txt(text: &[u8]) -> Record {
    Record::Txt(text.chunks(255).map(<[u8]>::to_vec).collect())
}

async fn serve(socket: UdpSocket, zone: Arc<Mutex<Zone>>, asked: Arc<Mutex<Vec<String>>>) {
    let mut buffer = [0_u8; 4096];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
        let Some((name, kind, end)) = question(&buffer[..length]) else {
            continue;
        };
        let turn = {
            let mut asked = asked.lock().expect("the questions");
            let question = format!("{name} {kind}");
            let turn = asked.iter().filter(|before| **before == question).count();
            asked.push(question);
            turn
        };
        let answer = answer(&zone.lock().expect("the zone"), (&name, kind), turn);
        if let Some((code, records)) = answer {
            let packet = packet(&buffer[..end], code, &records);
            socket.send_to(&packet, peer).await.expect("an answer");
        }
    }
}

/// Name, type, and where the question ends.
fn question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*packet.get(at)?);
        if length == 0 {
            break;
        }
        labels.push(
            String::from_utf8_lossy(packet.get(at + 1..at + 1 + length)?).to_ascii_lowercase(),
        );
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([*packet.get(at + 1)?, *packet.get(at + 2)?]);
    Some((labels.join("."), kind, at + 5))
}

/// A record of an answer: owner, type and data as on the wire.
type Wire = (String, u16, Vec<u8>);

/// Response code and records; `None` is silence.
fn answer(zone: &Zone, (asked, kind): (&str, u16), turn: usize) -> Option<(u8, Vec<Wire>)> {
    let (mut name, mut answer) = (asked.to_owned(), Vec::new());
    for _ in 0..8 {
        let Some(records) = zone.get(&name) else {
            let has_children = zone.keys().any(|key| key.ends_with(&format!(".{name}")));
            let code = if answer.is_empty() && !has_children {
                NXDOMAIN
            } else {
                NO_ERROR
            };
            return Some((code, answer));
        };
        let wires = records
            .iter()
            .flat_map(|record| in_turn(record, turn))
            .filter_map(|record| wire(&record))
            .filter(|(found, _)| *found == kind);
        let mine: Vec<Wire> = wires
            .map(|(kind, data)| (name.clone(), kind, data))
            .collect();
        if mine.is_empty() {
            if records
                .iter()
                .any(|record| matches!(record, Record::Silent))
            {
                return None;
            }
            if records
                .iter()
                .any(|record| matches!(record, Record::ServFail))
            {
                return Some((SERVFAIL, Vec::new()));
            }
        }
        let alias = records.iter().find_map(|record| match record {
            Record::Cname(target) if kind != CNAME => Some(target.to_ascii_lowercase()),
            _ => None,
        });
        match alias {
            Some(target) if mine.is_empty() => {
                answer.push((name, CNAME, encoded(&target)));
                name = target;
            }
            _ => {
                answer.extend(mine);
                return Some((NO_ERROR, answer));
            }
        }
    }
    Some((SERVFAIL, Vec::new()))
}

/// The records that a question gets that was asked so often before.
fn in_turn(record: &Record, turn: usize) -> Vec<Record> {
    match record {
        Record::Turns(lists) => {
            let list = lists.get(turn).or(lists.last());
            let list = list.into_iter().flatten();
            list.map(|address| Record::A(*address)).collect()
        }
        record => vec![record.clone()],
    }
}

fn wire(record: &Record) -> Option<(u16, Vec<u8>)> {
    Some(match record {
        Record::A(address) => (1, address.octets().to_vec()),
        Record::Aaaa(address) => (28, address.octets().to_vec()),
        Record::Mx(preference, host) => {
            (15, [&preference.to_be_bytes()[..], &encoded(host)].concat())
        }
        Record::Txt(strings) => {
            let strings = strings.iter().map(|text| {
                let length =
                    u8::try_from(text.len()).expect("a character string of at most 255 octets");
                [&[length][..], text].concat()
            });
            (16, strings.collect::<Vec<_>>().concat())
        }
        Record::Ptr(name) => (12, encoded(name)),
        Record::Cname(name) => (CNAME, encoded(name)),
        // In whose place stand the addresses of a turn.
        Record::Turns(_) => return None,
        Record::Silent | Record::ServFail => return None,
    })
}

fn encoded(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a label of at most 63 octets"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

fn packet(question: &[u8], code: u8, records: &[Wire]) -> Vec<u8> {
    let mut packet = question.to_vec();
    packet[2] = 0x81 | (question[2] & 0x78) | 0x04;
    packet[3] = 0x80 | code;
    let count = u16::try_from(records.len()).expect("few records");
    let authorities = u16::from(records.is_empty());
    packet[4..6].copy_from_slice(&1_u16.to_be_bytes());
    packet[6..8].copy_from_slice(&count.to_be_bytes());
    packet[8..10].copy_from_slice(&authorities.to_be_bytes());
    packet[10..12].copy_from_slice(&0_u16.to_be_bytes());
    for (owner, kind, data) in records {
        append(&mut packet, owner, *kind, data);
    }
    if records.is_empty() {
        // Negative answers carry an SOA (RFC 2308 section 3).
        let times = [1_u32, 60, 60, 60, 0]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect::<Vec<_>>();
        append(
            &mut packet,
            "",
            6,
            &[encoded("ns.test"), encoded("root.test"), times].concat(),
        );
    }
    packet
}

fn append(packet: &mut Vec<u8>, owner: &str, kind: u16, data: &[u8]) {
    packet.extend(encoded(owner));
    packet.extend(kind.to_be_bytes());
    packet.extend(1_u16.to_be_bytes());
    packet.extend(0_u32.to_be_bytes());
    packet.extend(
        u16::try_from(data.len())
            .expect("a short record")
            .to_be_bytes(),
    );
    packet.extend(data);
}
