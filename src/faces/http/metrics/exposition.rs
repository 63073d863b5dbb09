//! The text format of Prometheus (prometheus.io, "Exposition formats").

use std::fmt::Write;

/// Type of a family of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleKind {
    /// Grows, and begins at zero again with the process.
    Counter,
    Gauge,
    Histogram,
}

/// Text of an answer, which grows by families.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// A family whose samples are being written.
pub(super) struct MetricFamily<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family; `help` is one line.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        kind: SampleKind,
        help: &str,
    ) -> MetricFamily<'_> {
        let kind = match kind {
            SampleKind::Counter => "counter",
            SampleKind::Gauge => "gauge",
            SampleKind::Histogram => "histogram",
        };
        let text = &mut self.text;
        // Writing to a text cannot fail.
        let _ok = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        MetricFamily { text, name }
    }

    pub(super) fn text(self) -> String {
        self.text
    }
}

impl MetricFamily<'_> {
    /// Writes one sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_of("", labels, value);
    }

    /// Writes one sample of a part of a histogram: `_bucket`, `_sum`, `_count`.
    pub(super) fn sample_of(&mut self, part: &str, labels: &[(&str, &str)], value: f64) {
        let (name, text) = (self.name, &mut *self.text);
        let _ok = write!(text, "{name}{part}");
        for (place, (label, word)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ok = write!(text, "{before}{label}=\"{}\"", escaped(word));
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ok = writeln!(text, " {value}");
    }
}

/// Escapes a label's value: backslash, quote and end of line.
fn escaped(word: &str) -> String {
    word.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line() {
        let mut to = Exposition::default();
        to.family("a_total", SampleKind::Counter, "Of a.")
            .sample(&[("model", "x\"y\\z\nw")], 1.5);
        assert_eq!(
            to.text(),
            "# HELP a_total Of a.\n# TYPE a_total counter\na_total{model=\"x\\\"y\\\\z\\nw\"} 1.5\n"
        );
    }
}
