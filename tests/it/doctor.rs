//! `attache doctor` on installations that are broken in one way each: the one finding, its area, its words, its remedy, and no
//! other. A case that this machine cannot make says SKIPPED.

mod house;
mod machine;
mod settings;
mod started;
mod stored;

use house::{House, Made};
use serde_json::Value;

/// An installation that is broken in one way.
pub struct Case {
    name: &'static str,
    area: &'static str,
    severity: &'static str,
    /// Words of the finding, its place among them.
    what: &'static [&'static str],
    remedy: &'static str,
    make: fn(&House) -> Made,
}

type Make = fn(&House) -> Made;

impl Case {
    const fn of(
        severity: &'static str,
        (name, area): (&'static str, &'static str),
        what: &'static [&'static str],
        remedy: &'static str,
        make: Make,
    ) -> Self {
        Self {
            name,
            area,
            severity,
            what,
            remedy,
            make,
        }
    }
    const fn fault(
        name: &'static str,
        area: &'static str,
        what: &'static [&'static str],
        remedy: &'static str,
        make: Make,
    ) -> Self {
        Self::of("fault", (name, area), what, remedy, make)
    }
    const fn warning(
        name: &'static str,
        area: &'static str,
        what: &'static [&'static str],
        remedy: &'static str,
        make: Make,
    ) -> Self {
        Self::of("warning", (name, area), what, remedy, make)
    }
    const fn note(
        name: &'static str,
        area: &'static str,
        what: &'static [&'static str],
        remedy: &'static str,
        make: Make,
    ) -> Self {
        Self::of("note", (name, area), what, remedy, make)
    }

    /// Breaks an installation and returns what is wrong with the diagnosis; `Ok(false)`: it was skipped.
    fn check(&self, control: &[Value]) -> Result<bool, String> {
        let house = House::new();
        let _kept = match (self.make)(&house) {
            Made::Broken(kept) => kept,
            Made::Skipped(why) => {
                eprintln!("SKIPPED: {}: {why}", self.name);
                return Ok(false);
            }
        };
        let (mut found, code) = house.findings();
        found.retain(|finding| !control.contains(finding));
        let fails = |why: &str| Err(format!("{}: {why}: {found:#?}", self.name));
        let [finding] = found.as_slice() else {
            return fails("not one finding");
        };
        let says = sentence(finding);
        let remedy = finding["remedy"].as_str().unwrap_or_default();
        match () {
            () if finding["area"] != self.area => fails("another area"),
            () if finding["severity"] != self.severity => fails("another severity"),
            () if !self.what.iter().all(|words| says.contains(words)) => fails("other words"),
            () if remedy.is_empty() || !remedy.contains(self.remedy) => fails("another remedy"),
            () if (code != 0) != (self.severity == "fault") => fails(&format!("exit code {code}")),
            () => Ok(true),
        }
    }
}

/// Formats place and words of a finding as the screen shows them.
fn sentence(finding: &Value) -> String {
    let place = ["file", "line", "column"].map(|key| match &finding[key] {
        Value::String(file) => format!("{file}:"),
        Value::Number(number) => format!("{number}:"),
        _ => String::new(),
    });
    format!(
        "{} {}",
        place.concat(),
        finding["what"].as_str().unwrap_or_default()
    )
}

/// Checks a table on as many threads as there are cores.
fn check_all(cases: &[Case], made_min: usize) {
    let control = control();
    let results: Vec<Result<bool, String>> = std::thread::scope(|scope| {
        let halves = cases.chunks(cases.len().div_ceil(2));
        let control = &control;
        let threads = halves.map(|half| {
            scope.spawn(move || {
                half.iter()
                    .map(|case| case.check(control))
                    .collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a thread"))
            .collect()
    });
    let made = results.iter().filter(|result| **result == Ok(true)).count();
    let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    eprintln!(
        "{made} of {} broken installations were named exactly",
        cases.len()
    );
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(made >= made_min, "only {made} could be made");
}

/// What is found in the good installation: nothing, but that its disk may be one of a container or in memory.
fn control() -> Vec<Value> {
    let (found, code) = House::new().findings();
    assert_eq!(code, 0, "{found:#?}");
    let of_machine = |finding: &&Value| {
        let is_of = |area: &str| finding["area"] == area && finding["severity"] != "fault";
        is_of("disk") || is_of("clock")
    };
    let others: Vec<&Value> = found
        .iter()
        .filter(|finding| !of_machine(finding))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    found
}

#[test]
#[ignore = "second tier"]
fn installations_with_broken_files_are_named_exactly() {
    check_all(settings::CASES, 28);
}

#[test]
#[ignore = "second tier"]
fn installations_on_broken_machines_are_named_exactly() {
    check_all(machine::CASES, 16);
}

#[test]
#[ignore = "second tier"]
fn installations_with_broken_data_are_named_exactly() {
    check_all(stored::CASES, 16);
}

#[test]
#[ignore = "second tier"]
fn installations_whose_programs_or_servers_fail_are_named_exactly() {
    check_all(started::CASES, 17);
}

#[test]
fn there_are_at_least_sixty_of_them() {
    let all = [
        settings::CASES,
        machine::CASES,
        stored::CASES,
        started::CASES,
    ];
    let names: std::collections::BTreeSet<&str> = all
        .iter()
        .flat_map(|cases| cases.iter())
        .map(|case| case.name)
        .collect();
    assert!(names.len() >= 60, "{}", names.len());
}

#[test]
#[ignore = "second tier"]
fn a_good_installation_is_told_in_one_line_and_a_broken_one_by_area() {
    let house = House::new();
    let text = |house: &House, args: &[&str]| {
        let said = house.wrapped(args);
        String::from_utf8(said.stdout).expect("UTF-8")
    };
    let good = text(&house, &["doctor"]);
    assert!(good.ends_with(" checks, nothing is wrong\n"), "{good}");
    let records = text(&house, &["doctor", "--audit"]);
    assert_eq!(records, "57 checks, nothing is wrong\n");
    house.certificate("house.test", (2025, 2026));
    house.write(".secrets", "ANTHROPIC_API_KEY=\"sk-1\n");
    let ill = text(&house, &["doctor", "--quick"]);
    let at = |words: &str| ill.find(words).unwrap_or_else(|| panic!("{words}: {ill}"));
    assert!(
        at("certificates\n  fault: configs/gateway.json:") < at("keys\n  warning: .secrets:1:1: "),
        "{ill}"
    );
    assert!(
        ill.contains("  hint: renew it") && ill.ends_with("1 fault, 1 warning\n"),
        "{ill}"
    );
    assert!(!ill.contains("sk-1"), "a key is never shown: {ill}");
}

#[test]
fn modes_are_mended_and_nothing_else_is() {
    let house = House::new();
    house.chmod("data", 0o755);
    house.chmod("data/attache.db", 0o644);
    house.chmod(".secrets", 0o644);
    house.chmod(".", 0o755);
    house.chmod("configs", 0o777);
    house.certificate("house.test", (2025, 2026));
    let before = std::fs::read(house.path().join("data/attache.db")).expect("a database");
    let said = house.wrapped(&["doctor", "--fix", "--quick"]);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    for mended in [
        "mended: data/attache.db had mode 0644, and has 0600",
        "mended: data had mode 0755, and has 0700",
        "mended: .secrets had mode 0644, and has 0600",
        "mended: configs had mode 0777, and has 0755",
    ] {
        assert!(text.contains(mended), "{mended}: {text}");
    }
    assert_eq!(
        said.status.code(),
        Some(1),
        "the certificate is as it was: {text}"
    );
    let after = std::fs::read(house.path().join("data/attache.db")).expect("a database");
    assert!(before == after, "not a byte was changed");
    let (found, _) = house.findings();
    let areas: Vec<&Value> = found
        .iter()
        .map(|finding| &finding["area"])
        .filter(|area| *area != "disk")
        .collect();
    assert_eq!(areas, ["certificates"], "{found:#?}");
}
