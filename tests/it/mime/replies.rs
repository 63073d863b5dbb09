//! Own words and quoted ones; answers that machines send.

use crate::corpora::{corpus, files};
use attache::mime::{ParseLimits, fresh_text, parse};
use std::collections::HashMap;

/// Lines of `kept` that are in `wanted` too, with repeats.
fn common(kept: &str, wanted: &str) -> (usize, usize, usize) {
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|l| l.trim().to_owned())
            .filter(|l| !l.is_empty())
            .collect()
    };
    let (kept, wanted) = (lines(kept), lines(wanted));
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in &wanted {
        *left.entry(line).or_default() += 1;
    }
    let mut hits = 0;
    for line in &kept {
        if let Some(count) = left.get_mut(line.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            hits += 1;
        }
    }
    (hits, kept.len(), wanted.len())
}

#[test]
fn own_words_are_kept_and_most_quotes_are_not() {
    let Some(folder) = corpus("quotes-trimmer") else {
        return;
    };
    let (mut hits, mut kept, mut wanted) = (0, 0, 0);
    let (mut recalls, mut precisions, mut cases) = (0.0, 0.0, 0.0);
    for path in files(&folder.join("emails"), "txt") {
        let text = std::fs::read_to_string(&path)
            .expect("mail")
            .replace("\r\n", "\n");
        let name = path.file_name().expect("name");
        let own = std::fs::read_to_string(folder.join("trimmed").join(name)).expect("trimmed");
        let (h, k, w) = common(&fresh_text(&text, ""), &own);
        if h < w || k > w {
            eprintln!(
                "quotes {name:?}: {h} of {w} own lines kept, {} others",
                k - h
            );
        }
        (hits, kept, wanted) = (hits + h, kept + k, wanted + w);
        recalls += if w == 0 { 1.0 } else { h as f64 / w as f64 };
        precisions += if k == 0 { 1.0 } else { h as f64 / k as f64 };
        cases += 1.0;
    }
    let (recall, precision) = (hits as f64 / wanted as f64, hits as f64 / kept as f64);
    eprintln!("quotes over all lines: recall {recall:.3}, precision {precision:.3}");
    eprintln!(
        "quotes, mean of cases: recall {:.3}, precision {:.3}",
        recalls / cases,
        precisions / cases
    );
    assert!(recall >= 0.95, "recall {recall:.3}");
    assert!(precision >= 0.60, "precision {precision:.3}");
}

#[test]
fn bounces_parse_and_are_recognisable_as_automatic() {
    let Some(folder) = corpus("bounces-sisimai") else {
        return;
    };
    let letters = files(&folder, "eml");
    let (mut by_header, mut recognisable) = (0, 0);
    for path in &letters {
        let letter = std::fs::read(path).expect("letter");
        let email = parse(&letter, &ParseLimits::default()).expect("a bounce is an email");
        let signs = &email.automatic;
        let has_signs = signs.is_report
            || signs
                .auto_submitted
                .as_deref()
                .is_some_and(|token| token != "no")
            || signs.has_autoreply_header
            || signs.has_list_header
            || signs.precedence.is_some();
        // The sender of a bounce says what it is, when nothing else does; the judge looks at it too.
        let sender = email
            .from
            .first()
            .map(|m| m.spec.to_lowercase())
            .unwrap_or_default();
        let is_daemon = [
            "mailer-daemon",
            "postmaster",
            "mail-daemon",
            "mdaemon",
            "bounce",
            "noreply",
            "no-reply",
        ]
        .iter()
        .any(|name| sender.starts_with(name));
        // `From: <>` leaves nobody to answer.
        let is_daemon = is_daemon || sender.is_empty();
        by_header += usize::from(has_signs);
        recognisable += usize::from(has_signs || is_daemon);
        if !has_signs && !is_daemon {
            eprintln!(
                "bounces: {:?} from {sender:?} has no sign",
                path.file_name().expect("name")
            );
        }
    }
    let all = letters.len();
    eprintln!(
        "bounces: {by_header} of {all} by header signs, {recognisable} with their sender's name"
    );
    assert_eq!(recognisable, all);
}

/// Cases of our own: a mail per file, its own words below a line of `=====`.
#[test]
fn quotes_are_told_from_own_words() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mime/quotes");
    let cases = files(&folder, "txt");
    assert!(cases.len() >= 8, "{} cases", cases.len());
    for path in cases {
        let case = std::fs::read_to_string(&path).expect("case");
        let (mail, own) = case.split_once("\n=====\n").expect("a line of =====");
        let subject = mail
            .lines()
            .next()
            .and_then(|l| l.strip_prefix("Subject: "))
            .unwrap_or_default();
        let mail = mail
            .strip_prefix(&format!("Subject: {subject}\n\n"))
            .unwrap_or(mail);
        assert_eq!(
            fresh_text(mail, subject).trim_end(),
            own.trim_end(),
            "{}",
            path.display()
        );
    }
}
