//! Facts that a summariser drops or changes are found.

use attache::context::resolvers::summary::request::problems;

/// A generator of numbers that is the same on every machine.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % max
    }
    fn of<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[usize::try_from(self.below(words.len() as u64)).expect("an index")]
    }
}

const FIRST: &[&str] = &[
    "Maria", "Jonas", "Aino", "Tariq", "Wanda", "Ines", "Pavel", "Ruth", "Oskar", "Leila",
];
const LAST: &[&str] = &[
    "Keller",
    "Okafor",
    "Virtanen",
    "Novak",
    "Moreau",
    "Lindqvist",
    "Sato",
    "Brandt",
    "Duarte",
    "Byrne",
];
const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
];
const FILLER: &[&str] = &[
    "The path along the weir is dry again, and the otters come at dusk.",
    "Nothing else is new here; the kitchen smells of bread.",
    "I hope that this finds you well and rested.",
];

/// One planted fact as a sentence of a letter: an amount, a date, a name or a commitment.
fn planted(of: &mut Seeded, kind: u64) -> String {
    let person = format!("{} {}", of.of(FIRST), of.of(LAST));
    let day = format!("{} {}", 1 + of.below(28), of.of(MONTHS));
    let amount = format!(
        "{},{:03}.{:02} EUR",
        1 + of.below(90),
        of.below(1000),
        of.below(100)
    );
    match kind {
        0 => format!("the repair costs {amount}."),
        1 => format!("the inspection is on {day}."),
        2 => format!("the new tenant is {person}."),
        _ => format!("{person} promised to send the keys by {day}."),
    }
}

/// Renders a letter as the request does.
fn rendered(n: usize, facts: &[String], of: &mut Seeded) -> String {
    let body: Vec<String> = facts
        .iter()
        .map(|fact| format!("{} As I said, {fact}", of.of(FILLER)))
        .collect();
    format!(
        "=== Letter of Tue, 0{} Nov 2026 09:00 UTC from Bob <bob@guest.example>, subject: The mill\n{}\n\n",
        n + 1,
        body.join("\n")
    )
}

#[test]
#[ignore = "second tier"]
fn dropped_and_changed_facts_of_two_hundred_threads_are_flagged() {
    let (mut whole_flagged, mut drops, mut found, mut changed, mut changed_found) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let of = &mut Seeded(seed * 7919 + 1);
        let facts: Vec<String> = (0..10).map(|n| planted(of, n % 4)).collect();
        let letters: String = facts
            .chunks(2)
            .enumerate()
            .map(|(n, two)| rendered(n, two, of))
            .collect();
        let letters = format!("=== The letters\n{letters}");
        let summary = |facts: &[&String]| {
            let said: Vec<String> = facts
                .iter()
                .map(|fact| format!("Bob writes that {fact}"))
                .collect();
            said.join("\n")
        };
        let all: Vec<&String> = facts.iter().collect();
        whole_flagged += usize::from(!problems(&letters, &summary(&all)).is_empty());
        // Each fact alone, so that one drop cannot hide behind another.
        for dropped in 0..10 {
            let kept: Vec<&String> = all
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != dropped)
                .map(|(_, fact)| *fact)
                .collect();
            drops += 1;
            found += usize::from(!problems(&letters, &summary(&kept)).is_empty());
        }
        let lied = summary(&all).replacen(|c: char| c.is_ascii_digit(), "8", 1);
        if lied != summary(&all) {
            changed += 1;
            changed_found += usize::from(!problems(&letters, &lied).is_empty());
        }
    }
    println!(
        "whole summaries flagged: {whole_flagged} of 200; drops flagged: {found} of {drops}; changed numbers: {changed_found} of {changed}"
    );
    assert_eq!(whole_flagged, 0);
    assert!(found * 100 >= drops * 95, "{found} of {drops}");
    assert!(
        changed_found * 100 >= changed * 95 && changed > 150,
        "{changed_found} of {changed}"
    );
}

/// How letters are written: each with two facts in it.
const SHAPES: &[&str] = &[
    "plain",
    "wrapped",
    "thanks",
    "greeting",
    "list",
    "bold",
    "brackets",
    "table",
    "postscript",
    "below the name",
    "answers",
];

/// Writes sentences as real letters do.
fn shaped(shape: &str, sentences: &[String]) -> String {
    let each = |before: &str, after: &str| {
        let lines = sentences.iter();
        let lines: Vec<String> = lines.map(|line| format!("{before}{line}{after}")).collect();
        lines.join("\n")
    };
    match shape {
        "wrapped" => textwrapped(&format!("{} {}", FILLER[0], sentences.join(" "))),
        "thanks" => format!("Thanks,\n\n{}", each("", "")),
        "greeting" => format!("Hi all,\n\nmany thanks!\n\n{}", each("", "")),
        "list" => format!("So it is:\n{}", each("- ", "")),
        "bold" => each("**", "**"),
        "brackets" => each("(", ") (as before) (it seems)"),
        "table" => each("| so | ", " |"),
        "postscript" => format!("{}\n\nRegards,\nBob\n\n{}", FILLER[1], each("P.S. ", "")),
        "below the name" => format!("{}\n\nBob\n\n{}", FILLER[1], each("", "")),
        "answers" => each("> Is it so?\n", ""),
        _ => each("", ""),
    }
}

fn textwrapped(text: &str) -> String {
    let (mut wrapped, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let is_full = width + word.len() > 72;
        wrapped.push_str(if is_full { "\n" } else { " " });
        wrapped.push_str(word);
        width = if is_full { 0 } else { width } + word.len() + 1;
    }
    wrapped.trim().to_owned()
}

#[test]
#[ignore = "second tier"]
fn facts_of_letters_in_the_shapes_of_real_mail_are_flagged_when_dropped() {
    let ends = [
        "",
        "\n\nRegards\nBob",
        "\n\nBob\n\nBob Hill\nMill Office, Room 5",
        "\n\nBest,\nBob\n______\nMill-Line mailing list\nhttps://lists.example/mill",
    ];
    for shape in SHAPES {
        let (mut drops, mut found) = (0, 0);
        for seed in 0..20 {
            let of = &mut Seeded(seed * 7919 + 1);
            let facts: Vec<String> = (0..8).map(|n| planted(of, n % 4)).collect();
            let letters: String = facts
                .chunks(2)
                .enumerate()
                .map(|(n, two)| {
                    let said: Vec<String> = two.iter().map(|fact| format!("as I said, {fact}")).collect();
                    let end = match *shape {
                        "postscript" | "below the name" => "",
                        _ => of.of(&ends),
                    };
                    let body = shaped(shape, &said);
                    format!("=== Letter of Tue, 0{} Nov 2026 09:00 UTC from bob@guest.example, subject: Mill\n{body}{end}\n\n", n + 1)
                })
                .collect();
            let letters = format!("=== The letters\n{letters}");
            let summary = |left_out: usize| -> String {
                let kept = facts.iter().enumerate().filter(|(n, _)| *n != left_out);
                kept.map(|(_, fact)| format!("Bob writes that {fact}\n"))
                    .collect()
            };
            assert_eq!(
                problems(&letters, &summary(facts.len())),
                [""; 0],
                "{shape}"
            );
            drops += facts.len();
            let is_found = |n: &usize| !problems(&letters, &summary(*n)).is_empty();
            found += (0..facts.len()).filter(is_found).count();
        }
        println!("{shape}: {found} of {drops} drops flagged");
        assert!(found * 100 >= drops * 95, "{shape}: {found} of {drops}");
    }
}
