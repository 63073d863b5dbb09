//! DNS records that the domains of the personas should publish, asked for with `--online`.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallFinding};
use crate::config::Config;
use crate::gateway::dns_records::{self, CheckedRecord, RecordPurpose, RecordState};
use crate::gateway::identity::dns::DnsResolver;

/// Asks for every record. The number of checks is that of the records.
pub async fn examine(config: Option<&Config>) -> ExaminedArea {
    let Some(config) = config else {
        return ExaminedArea::default();
    };
    let wanted = dns_records::wanted(config);
    let checked = match DnsResolver::new(&config.security.authentication.resolver) {
        Ok(resolver) => dns_records::check(&resolver, &wanted).await,
        // Its settings are a problem of the configuration.
        Err(_) => Vec::new(),
    };
    ExaminedArea {
        checks: wanted.len(),
        findings: checked.iter().filter_map(finding).collect(),
    }
}

fn finding(checked: &CheckedRecord) -> Option<InstallFinding> {
    let record = &checked.record;
    let severity = match (checked.state, record.purpose) {
        (RecordState::Good, _) => return None,
        (RecordState::Unasked, _) => FindingSeverity::Note,
        // Without it no letter comes in, and with another key every signature is a bad one.
        (RecordState::Missing, RecordPurpose::Mx) => FindingSeverity::Fault,
        (RecordState::Different, RecordPurpose::Dkim) => FindingSeverity::Fault,
        _ => FindingSeverity::Warning,
    };
    let what = format!(
        "{} of `{}`: {}",
        record.purpose.as_str(),
        record.name,
        checked.message
    );
    let remedy = match (checked.state, record.zone_line()) {
        (RecordState::Unasked, _) => {
            "see `/etc/resolv.conf`, or `authentication.resolver` in configs/security.json"
                .to_owned()
        }
        (_, Some(line)) => format!("publish `{line}`"),
        (_, None) => format!("publish what your mail provider names: {}", record.why),
    };
    Some(InstallFinding::new(
        FindingArea::Dns,
        severity,
        what,
        remedy,
    ))
}
