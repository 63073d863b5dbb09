//! Reads the openspf suite for RFC 7208: as much of YAML as that one file uses.

use crate::dns::{Record, Zone, txt};
use std::collections::HashMap;

/// One scenario: its zone, and its tests in order.
#[derive(Debug, Default)]
pub struct Scenario {
    pub description: String,
    pub tests: Vec<Test>,
    pub zone: Zone,
}

#[derive(Debug, Default)]
pub struct Test {
    pub name: String,
    pub helo: String,
    pub host: String,
    pub mail_from: String,
    /// Any of them is right.
    pub results: Vec<String>,
}

pub fn read(text: &str) -> Vec<Scenario> {
    text.split("\n---\n")
        .map(scenario)
        .filter(|scenario| !scenario.tests.is_empty())
        .collect()
}

fn scenario(text: &str) -> Scenario {
    let mut scenario = Scenario::default();
    let mut typed: HashMap<String, Vec<(String, String)>> = HashMap::new();
    let (mut section, mut name) = (String::new(), String::new());
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        match (indent, section.as_str()) {
            (0, _) => {
                let (key, value) = body.split_once(':').unwrap_or((body, ""));
                section = key.to_owned();
                if key == "description" {
                    scenario.description = value.trim().to_owned();
                }
            }
            (2, "tests") => {
                let name = body.trim_end().trim_end_matches(':').to_owned();
                scenario.tests.push(Test {
                    name,
                    ..Test::default()
                });
            }
            (4, "tests") => {
                if let (Some(test), Some((key, value))) =
                    (scenario.tests.last_mut(), body.split_once(':'))
                {
                    field(test, key, value);
                }
            }
            (2, "zonedata") => {
                name = scalar(body.trim_end().trim_end_matches(':')).to_ascii_lowercase();
                typed.entry(name.clone()).or_default();
            }
            (4, "zonedata") => {
                let (kind, value) = body
                    .trim_start_matches("- ")
                    .split_once(':')
                    .unwrap_or((body, ""));
                typed
                    .entry(name.clone())
                    .or_default()
                    .push((kind.trim().to_owned(), value.trim().to_owned()));
            }
            _ => {}
        }
    }
    scenario.zone = typed
        .into_iter()
        .map(|(name, records)| (name.clone(), zone_of(&name, &records)))
        .collect();
    scenario
}

fn field(test: &mut Test, key: &str, value: &str) {
    match key {
        "helo" => test.helo = scalar(value),
        "host" => test.host = scalar(value),
        "mailfrom" => test.mail_from = scalar(value),
        "result" => test.results = list(value),
        _ => {}
    }
}

/// The suite's shorthand: `SPF` stands for TXT too, unless the name has TXT records of its own.
fn zone_of(name: &str, typed: &[(String, String)]) -> Vec<Record> {
    let has_txt = typed.iter().any(|(kind, _)| kind == "TXT");
    let mut records = Vec::new();
    for (kind, value) in typed {
        match kind.as_str() {
            "SPF" if has_txt => {}
            "TXT" if value == "NONE" => {}
            "SPF" | "TXT" => records.push(match value.starts_with('[') {
                true => Record::Txt(strings(value)),
                false => txt(&bytes(&scalar(value))),
            }),
            "A" => records.push(Record::A(scalar(value).parse().expect("an IPv4 address"))),
            "AAAA" => records.push(Record::Aaaa(
                scalar(value).parse().expect("an IPv6 address"),
            )),
            "PTR" => records.push(Record::Ptr(scalar(value))),
            "CNAME" => records.push(Record::Cname(scalar(value))),
            "MX" => {
                let parts = list(value);
                records.push(Record::Mx(
                    parts[0].parse().expect("a preference"),
                    parts[1].clone(),
                ));
            }
            "CNAMELOOP" => records.push(Record::Cname(name.to_owned())),
            "TIMEOUT" => records.push(Record::Silent),
            other => panic!("an unknown record type {other}"),
        }
    }
    records
}

/// Escapes stand for octets; here each octet is a character below U+0100.
fn bytes(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).expect("an octet"))
        .collect()
}

fn list(text: &str) -> Vec<String> {
    let text = text.trim();
    match text
        .strip_prefix('[')
        .and_then(|inside| inside.strip_suffix(']'))
    {
        None => vec![scalar(text)],
        Some(inside) if inside.trim().is_empty() => Vec::new(),
        Some(inside) => inside.split(',').map(scalar).collect(),
    }
}

fn scalar(text: &str) -> String {
    let text = text.trim();
    if let Some(inside) = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
    {
        return inside.replace("''", "'");
    }
    let Some(inside) = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return text
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
    };
    let (mut out, mut chars) = (String::new(), inside.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('x') => {
                let hex: String = chars.by_ref().take(2).collect();
                out.push(char::from(
                    u8::from_str_radix(&hex, 16).expect("two hexadecimal digits"),
                ));
            }
            Some('0') => out.push('\0'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// A TXT record has at least one character string (RFC 1035 section 3.3.14), if only an empty one.
fn strings(value: &str) -> Vec<Vec<u8>> {
    let strings: Vec<Vec<u8>> = list(value).iter().map(|text| bytes(text)).collect();
    if strings.is_empty() {
        vec![Vec::new()]
    } else {
        strings
    }
}
