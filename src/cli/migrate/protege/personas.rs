//! Personas: names, addresses, and the files of their folders.

use super::findings::{FindingKind, MigrationFindings};
use super::settings::{document, no_counterpart, pretty};
use super::source::{SourceFolder, below};
use crate::config::{Config, Document, check_name};
use crate::context::resolvers::knowledge::KnowledgeFormat;
use crate::domain::{Address, PersonaId};
use crate::text::{one_line, shortened};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Keys by which `persona.json` is read, because its layout is not documented.
const NAME_KEYS: [&str; 3] = ["display_name", "displayName", "name"];
const KEY_KEYS: [&str; 5] = [
    "public_key",
    "publicKey",
    "pubkey",
    "public_key_base32",
    "publicKeyBase32",
];
const ADDRESS_KEYS: [&str; 6] = [
    "email_address",
    "emailAddress",
    "email",
    "address",
    "email_local_part",
    "emailLocalPart",
];
const ALIAS_KEYS: [&str; 3] = ["aliases", "email_aliases", "emailAliases"];
const ID_KEYS: [&str; 3] = ["persona_id", "personaId", "id"];
const KNOWLEDGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most bytes of all knowledge of a persona.
const KNOWLEDGE_ALL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// What becomes of a persona whose own words or address are not known.
const NOT_TAKEN_OVER: &str = "the persona was not taken over";
/// Folders of knowledge inside each other.
const DEPTH_MAX: usize = 4;

/// A persona of the other workspace that comes over.
#[derive(Debug, Clone)]
pub struct SourcePersona {
    pub id: PersonaId,
    /// Its folder there.
    pub folder: String,
    pub name: String,
    pub address: Address,
    pub aliases: Vec<Address>,
    /// The addresses that it had there, where the domain was another one: letters of the past name them.
    pub former: Vec<Address>,
}

impl SourcePersona {
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.aliases)
    }
}

/// Mail domains of the personas.
#[derive(Clone, Copy)]
pub struct PersonaDomains<'a> {
    pub here: &'a str,
    pub there: Option<&'a str>,
}

/// Reads every persona. `here`: the configuration of the workspace, whose addresses are taken.
pub fn read(
    source: &SourceFolder,
    domains: PersonaDomains<'_>,
    here: Option<&Config>,
    findings: &mut MigrationFindings,
) -> Vec<SourcePersona> {
    let mut personas: Vec<SourcePersona> = Vec::new();
    for entry in source.entries("personas") {
        let place = below("personas", &entry.name);
        if !entry.is_folder {
            continue;
        }
        let Ok(id) = PersonaId::parse(&entry.name.to_ascii_lowercase()) else {
            let what = "the folder's name is no id: a-z, 0-9, `-` and `_`";
            findings.broken(&place, what);
            continue;
        };
        if personas.iter().any(|other| other.id == id) {
            findings.broken(&place, "another folder has this name in other letters");
            continue;
        }
        if let Some(persona) = persona(source, (id, &entry.name), domains, findings) {
            personas.push(persona);
        }
    }
    // What is left out here still claims its addresses: it comes once it is mended.
    let personas = without_shared_addresses(personas, here, findings);
    with_readable_text(personas, source, findings)
}

fn persona(
    source: &SourceFolder,
    (id, folder): (PersonaId, &str),
    domains: PersonaDomains<'_>,
    findings: &mut MigrationFindings,
) -> Option<SourcePersona> {
    let place = format!("personas/{folder}/persona.json");
    let document = settings_of(source, &place, findings).ok()?;
    let key_file = format!("personas/{folder}/passport.key");
    if source.is_file(&key_file) {
        let remedy = "mail comes to the server itself here, or from a mailbox: see `attache setup`; the key was not copied";
        findings.add(
            FindingKind::NoCounterpart,
            key_file,
            "the key for Protege's relay has no counterpart",
            remedy,
        );
    }
    if let Some(document) = &document {
        name_the_rest(document, folder, findings);
    }
    let document = document.as_ref();
    let name = name(source, document, (folder, &place), findings);
    let typed = typed_addresses(document, (&id, &place), domains, findings)?;
    let mut all = distinct(&typed, (&place, domains.here), findings).into_iter();
    Some(SourcePersona {
        address: all.next()?,
        aliases: all.collect(),
        former: typed
            .iter()
            .filter_map(|typed| Address::parse_in(typed, domains.there?).ok())
            .collect(),
        id,
        folder: folder.to_owned(),
        name,
    })
}

/// The first of these members that is a text and not blank.
fn text_of(document: Option<&Document>, keys: &[&str]) -> Option<String> {
    let value = &document?.value;
    let found = keys.iter().find_map(|key| value[*key].as_str());
    found
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// The name that `persona.json` says, or the heading of PERSONA.md, or the folder's.
fn name(
    source: &SourceFolder,
    document: Option<&Document>,
    (folder, place): (&str, &str),
    findings: &mut MigrationFindings,
) -> String {
    let heading = || {
        let text = source
            .text(&format!("personas/{folder}/PERSONA.md"))
            .ok()??;
        let line = text.lines().find_map(|line| line.strip_prefix("# "))?;
        Some(line.trim().to_owned())
    };
    let is_good = |name: &String| check_name(name).is_ok();
    let said = text_of(document, &NAME_KEYS);
    let name = said
        .clone()
        .filter(is_good)
        .or_else(|| heading().filter(is_good))
        .unwrap_or_else(|| folder.to_owned());
    if let Some(said) = said.filter(|said| !is_good(said)) {
        let said = shortened(&one_line(&said), 60);
        let what =
            format!("the name `{said}` has several lines, or is too long; it is `{name}` here");
        let remedy = "write the name that is meant into the persona.json of the new workspace";
        findings.add(FindingKind::Changed, place, what, remedy);
    }
    name
}

/// The addresses that `persona.json` says, the main one first. `None`: that one cannot be read, and is named.
fn typed_addresses(
    document: Option<&Document>,
    (id, place): (&PersonaId, &str),
    domains: PersonaDomains<'_>,
    findings: &mut MigrationFindings,
) -> Option<Vec<String>> {
    for key in ADDRESS_KEYS.iter().chain(&KEY_KEYS) {
        let value = document.map(|document| &document.value[*key]);
        if value.is_some_and(|value| !value.is_null() && !value.is_string()) {
            findings.broken(place, format!("`{key}` is no text; {NOT_TAKEN_OVER}"));
            return None;
        }
    }
    let mut typed: Vec<String> = text_of(document, &ADDRESS_KEYS)
        .into_iter()
        .chain(text_of(document, &KEY_KEYS))
        .collect();
    if typed.is_empty() {
        typed.push(id.to_string());
    }
    if Address::parse_in(&typed[0], domains.here).is_err() {
        let what = format!("`{}` is no mail address; {NOT_TAKEN_OVER}", typed[0]);
        findings.broken(place, what);
        return None;
    }
    let lists = ALIAS_KEYS
        .iter()
        .filter_map(|key| document?.value[*key].as_array());
    let listed = lists.flatten().filter_map(Value::as_str);
    typed.extend(listed.map(str::to_owned));
    Some(typed)
}

/// Reads `persona.json`; `Ok(None)`: there is none. Errors: it is broken, and named.
fn settings_of(
    source: &SourceFolder,
    place: &str,
    findings: &mut MigrationFindings,
) -> Result<Option<Document>, ()> {
    if matches!(source.text(place), Ok(None)) {
        return Ok(None);
    }
    document(source, place, findings).map(Some).ok_or_else(|| {
        findings.broken(place, format!("says no address; {NOT_TAKEN_OVER}"));
    })
}

/// The addresses that were typed, each once; what is none is named.
fn distinct(
    typed: &[String],
    (place, domain): (&str, &str),
    findings: &mut MigrationFindings,
) -> Vec<Address> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for typed in typed {
        match Address::parse_in(typed, domain) {
            Ok(address) if seen.insert(address.key()) => all.push(address),
            Ok(_) => {}
            Err(_) => findings.broken(place, format!("`{typed}` is no mail address")),
        }
    }
    all
}

/// Names what `persona.json` says beyond names and addresses.
fn name_the_rest(document: &Document, folder: &str, findings: &mut MigrationFindings) {
    for (key, value) in document.value.as_object().into_iter().flatten() {
        let pointer = format!("/{key}");
        let key = key.as_str();
        if ID_KEYS.contains(&key) {
            if value.as_str().is_some_and(|id| id != folder) {
                let problem =
                    document.problem_at(&pointer, format!("`{key}` is not the name of the folder"));
                findings.problem(
                    FindingKind::Broken,
                    problem.hint(format!("the folder's name counts: {folder}")),
                );
            }
            continue;
        }
        let known = NAME_KEYS
            .iter()
            .chain(&KEY_KEYS)
            .chain(&ADDRESS_KEYS)
            .chain(&ALIAS_KEYS);
        if !known.copied().chain(["$schema"]).any(|known| known == key) {
            no_counterpart(
                document,
                &pointer,
                "see the reference of persona.json",
                findings,
            );
        }
    }
}

/// Who claims which address, by its key: an address of the workspace here is taken as a main address is.
#[derive(Default)]
struct AddressClaims {
    main: BTreeMap<String, Vec<PersonaId>>,
    aliases: BTreeMap<String, Vec<PersonaId>>,
}

impl AddressClaims {
    fn of(personas: &[SourcePersona], here: Option<&Config>) -> Self {
        let mut claims = Self::default();
        let claim = |of: &mut BTreeMap<String, Vec<PersonaId>>, address: &Address, id| {
            let claim = of.entry(address.key()).or_default();
            if !claim.contains(id) {
                claim.push(id.clone());
            }
        };
        for persona in personas {
            claim(&mut claims.main, &persona.address, &persona.id);
            for alias in &persona.aliases {
                claim(&mut claims.aliases, alias, &persona.id);
            }
        }
        for persona in here.into_iter().flat_map(|config| config.personas.iter()) {
            for address in persona.addresses() {
                claim(&mut claims.main, address, &persona.id);
            }
        }
        claims
    }

    /// The others that have the address as their main one.
    fn other_main(&self, address: &Address, id: &PersonaId) -> Vec<&str> {
        others(&self.main, address, id)
    }

    fn other_alias(&self, address: &Address, id: &PersonaId) -> Vec<&str> {
        others(&self.aliases, address, id)
    }
}

fn others<'c>(
    claims: &'c BTreeMap<String, Vec<PersonaId>>,
    address: &Address,
    id: &PersonaId,
) -> Vec<&'c str> {
    let claim = claims.get(&address.key()).into_iter().flatten();
    claim
        .filter(|other| *other != id)
        .map(PersonaId::as_str)
        .collect()
}

/// Leaves out what two personas claim, so that no letter comes to the wrong one: a main address wins over an alias.
fn without_shared_addresses(
    mut personas: Vec<SourcePersona>,
    here: Option<&Config>,
    findings: &mut MigrationFindings,
) -> Vec<SourcePersona> {
    let claims = AddressClaims::of(&personas, here);
    let remedy =
        "write it into the persona.json of the one that is meant, and say the command again";
    personas.retain(|persona| {
        let address = persona.address.key();
        let others = claims.other_main(&persona.address, &persona.id);
        if !others.is_empty() {
            let place = format!("personas/{}", persona.folder);
            let what = format!(
                "its main address `{address}` belongs to {} too; {NOT_TAKEN_OVER}",
                others.join(" and to ")
            );
            findings.add(FindingKind::Broken, place, what, remedy);
        }
        others.is_empty()
    });
    for persona in &mut personas {
        let id = &persona.id;
        persona.aliases.retain(|alias| {
            let key = alias.key();
            let main = claims.other_main(alias, id);
            let shared = claims.other_alias(alias, id);
            if let [first, ..] = main.as_slice() {
                let place = format!("personas/{}", persona.folder);
                let what = format!("its alias `{key}` is an address of {first}, which keeps it");
                findings.add(FindingKind::Broken, place, what, remedy);
            } else if !shared.is_empty() {
                let mut names = [shared.as_slice(), &[id.as_str()]].concat();
                names.sort_unstable();
                let what = format!(
                    "the alias `{key}` belongs to {}; neither got it",
                    names.join(" and to ")
                );
                findings.add(FindingKind::Broken, "personas", what, remedy);
            }
            main.is_empty() && shared.is_empty()
        });
    }
    personas
}

/// Leaves out a persona whose own text cannot be read, so that the next migration brings it whole.
fn with_readable_text(
    mut personas: Vec<SourcePersona>,
    source: &SourceFolder,
    findings: &mut MigrationFindings,
) -> Vec<SourcePersona> {
    personas.retain(|persona| {
        let place = format!("personas/{}/PERSONA.md", persona.folder);
        let read = source.text(&place);
        if let Err(what) = &read {
            findings.broken(&place, format!("{what}; {NOT_TAKEN_OVER}"));
        }
        read.is_ok()
    });
    personas
}

/// The persona's own files, by their path here.
pub fn files(
    source: &SourceFolder,
    persona: &SourcePersona,
    findings: &mut MigrationFindings,
) -> Vec<(String, Vec<u8>)> {
    let home = format!("personas/{}", persona.id);
    let there = format!("personas/{}", persona.folder);
    let aliases: Vec<String> = persona.aliases.iter().map(Address::to_string).collect();
    let settings = json!({
        "$schema": "../../configs/schema/persona.json", "name": persona.name,
        "address": persona.address.to_string(), "aliases": aliases,
    });
    let mut files = vec![(
        format!("{home}/persona.json"),
        pretty(&settings).into_bytes(),
    )];
    let mut take =
        |from: &str, to: String, otherwise: Option<String>, findings: &mut MigrationFindings| {
            // In place of one that cannot be read nothing is written: the next migration would keep that.
            match source.text(from) {
                Ok(read) => files.extend(read.or(otherwise).map(|text| (to, text.into_bytes()))),
                Err(what) => findings.broken(from, what),
            }
        };
    let description = crate::config::description(&persona.name);
    take(
        &format!("{there}/PERSONA.md"),
        format!("{home}/PERSONA.md"),
        Some(description),
        findings,
    );
    let empty = "# Open\n\nNothing yet.\n".to_owned();
    take(
        &format!("memory/{}/active.md", persona.folder),
        format!("{home}/active.md"),
        Some(empty),
        findings,
    );
    let mut left = KNOWLEDGE_ALL_BYTES_MAX;
    for path in knowledge(source, &format!("{there}/knowledge"), 0, findings) {
        let to = format!("{home}{}", path.strip_prefix(&there).unwrap_or(&path));
        match source.bytes(&path, KNOWLEDGE_BYTES_MAX.min(left)) {
            Ok(bytes) => {
                left -= bytes.as_ref().map_or(0, Vec::len) as u64;
                files.extend(bytes.map(|bytes| (to, bytes)));
            }
            Err(what) => findings.broken(&path, what),
        }
    }
    files
}

/// The files of knowledge in a folder that are read here.
fn knowledge(
    source: &SourceFolder,
    folder: &str,
    depth: usize,
    findings: &mut MigrationFindings,
) -> Vec<String> {
    let mut found = Vec::new();
    for entry in source.entries(folder) {
        let path = below(folder, &entry.name);
        if entry.is_folder && depth < DEPTH_MAX {
            found.extend(knowledge(source, &path, depth + 1, findings));
        } else if KnowledgeFormat::of(&entry.name).is_some() {
            found.push(path);
        } else {
            let remedy = "knowledge is .md, .txt, .csv, .html, .pdf or a file of an office program here: write what it says into such a file";
            findings.add(
                FindingKind::NoCounterpart,
                path,
                "is no text of knowledge",
                remedy,
            );
        }
    }
    found
}
