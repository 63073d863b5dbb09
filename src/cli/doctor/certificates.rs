//! Our certificate: its end, its beginning, the hosts that it names. Whether it can be read and fits its key is a problem of
//! the configuration.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::config::{Config, Problem};
use crate::domain::Timestamp;
use crate::gateway::ingress::certificate::{CertificateFacts, certificate_facts};
use std::time::Duration;

/// Time before its end from which on a certificate that was not renewed is told of; programs that renew begin earlier.
const ENDS_SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// Our certificate at an instant.
pub struct CertificateState {
    pub place: Problem,
    pub certificate: CertificateFacts,
    pub now: Timestamp,
}

static CHECKS: &[InstallCheck<[CertificateState]>] = &[ended, begins, ends_soon, hosts];

pub fn examine(config: Option<&Config>, now: Timestamp) -> ExaminedArea {
    let state = config.and_then(|config| gather(config, now));
    ExaminedArea::of(CHECKS, state.as_slice())
}

fn gather(config: &Config, now: Timestamp) -> Option<CertificateState> {
    let gateway = &config.gateway;
    let files = gateway.tls.as_ref()?;
    let browsers = gateway
        .http_listeners
        .iter()
        .filter(|listener| listener.is_tls);
    let origins = browsers
        .flat_map(|listener| &listener.origins)
        .filter_map(|origin| {
            let authority = origin.authority.as_str();
            let host = authority.split(':').next().filter(|_| origin.is_https);
            // An address in brackets is asked for by nobody who checks names.
            host.filter(|host| !host.starts_with('['))
        });
    let mail = (!gateway.listeners.is_empty()).then_some(gateway.host_name.as_str());
    let hosts: Vec<&str> = mail.into_iter().chain(origins).collect();
    Some(CertificateState {
        place: config.snapshot.problem_at(
            "configs/gateway.json",
            "/tls/certificate",
            String::new(),
        ),
        certificate: certificate_facts(files, &hosts)?,
        now,
    })
}

fn finding(
    of: &CertificateState,
    severity: FindingSeverity,
    what: String,
    remedy: &str,
) -> InstallFinding {
    InstallFinding::new(FindingArea::Certificates, severity, what, remedy).at(&of.place)
}

fn ended(all: &[CertificateState]) -> Vec<InstallFinding> {
    let ended = all
        .iter()
        .filter(|of| of.certificate.ends_ms <= of.now.as_millis());
    let found = ended.map(|of| {
        let at = Timestamp::from_millis(of.certificate.ends_ms);
        let what = format!("the certificate ended at {at}: servers and browsers refuse it");
        let remedy =
            "renew it (`certbot renew`); an engine that works reads the new files by itself";
        finding(of, FindingSeverity::Fault, what, remedy)
    });
    found.collect()
}

fn begins(all: &[CertificateState]) -> Vec<InstallFinding> {
    let early = all
        .iter()
        .filter(|of| of.certificate.begins_ms > of.now.as_millis());
    let found = early.map(|of| {
        let at = Timestamp::from_millis(of.certificate.begins_ms);
        let what = format!("the certificate begins only at {at}");
        let remedy = "see whether this machine's clock is right (`date`), or take a certificate that is valid now";
        finding(of, FindingSeverity::Fault, what, remedy)
    });
    found.collect()
}

fn ends_soon(all: &[CertificateState]) -> Vec<InstallFinding> {
    let left = |of: &CertificateState| of.certificate.ends_ms - of.now.as_millis();
    let soon = i64::try_from(ENDS_SOON.as_millis()).unwrap_or(i64::MAX);
    let ending = all.iter().filter(|of| (1..soon).contains(&left(of)));
    let found = ending.map(|of| {
        let at = Timestamp::from_millis(of.certificate.ends_ms);
        let days = left(of) / DAY_MS;
        let what = format!("the certificate ends at {at}, in {days} days");
        let remedy = "see why it was not renewed: `certbot renew --dry-run`, or the timer of the program that does it";
        finding(of, FindingSeverity::Warning, what, remedy)
    });
    found.collect()
}

fn hosts(all: &[CertificateState]) -> Vec<InstallFinding> {
    let found = all.iter().flat_map(|of| {
        of.certificate.missing_hosts.iter().map(move |host| {
            let what = format!("the certificate does not name `{host}`");
            let remedy = "take a certificate for that name, or write the name that it has as `host_name` in configs/gateway.json";
            finding(of, FindingSeverity::Warning, what, remedy)
        })
    });
    found.collect()
}
