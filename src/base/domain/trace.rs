//! Ids of a run in traces, by W3C Trace Context: they follow from the run's own id, so every program that is told them, and
//! every export however late, names the run alike.

use super::digest::sha256_hex;
use super::id::RunId;

/// Returns the id of a run's trace: 32 hexadecimal digits, those of its own id.
pub fn trace_id(run: &RunId) -> String {
    let digits: String = run.as_str().chars().filter(|c| *c != '-').collect();
    let is_uuid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    match is_uuid {
        true => digits.to_ascii_lowercase(),
        false => sha256_hex(&[run.as_str().as_bytes()])[..32].to_owned(),
    }
}

/// Returns the id of a part of a run: 16 hexadecimal digits. The part of the whole run is empty.
pub fn span_id(run: &RunId, part: &str) -> String {
    sha256_hex(&[run.as_str().as_bytes(), b"/", part.as_bytes()])[..16].to_owned()
}

/// Returns the value of `traceparent` for a program that works for a run (W3C Trace Context section 3.2.2).
pub fn traceparent(run: &RunId) -> String {
    format!("00-{}-{}-01", trace_id(run), span_id(run, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_by_its_run() {
        let run = RunId::new("01a216b3-3d28-718b-8ef6-3f2e7e130542".to_owned());
        assert_eq!(trace_id(&run), "01a216b33d28718b8ef63f2e7e130542");
        assert_ne!(span_id(&run, ""), span_id(&run, "turn 0/1"));
        let header = traceparent(&run);
        let lengths: Vec<usize> = header.split('-').map(str::len).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{header}");
        let odd = RunId::new("r1".to_owned());
        assert_eq!(trace_id(&odd).len(), 32);
    }
}
