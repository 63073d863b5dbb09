//! SPF by the openspf suite for RFC 7208, over real DNS packets.

use super::suite;
use crate::corpora::corpus;
use crate::dns::DnsStub;
use attache::config::ResolverSettings;
use attache::gateway::identity::{dns::DnsResolver, spf};
use std::time::Duration;

/// Cases of the suite.
const CASES: usize = 203;

/// A stub that knows a zone, and a resolver that asks it alone.
async fn resolver(stub: &DnsStub) -> DnsResolver {
    let settings = ResolverSettings {
        servers: vec![stub.address],
        timeout: Duration::from_millis(250),
    };
    DnsResolver::new(&settings).expect("a resolver")
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_openspf_suite_agrees() {
    let Some(folder) = corpus("spf-rfc7208") else {
        return;
    };
    let text = std::fs::read_to_string(folder.join("rfc7208-tests.yml")).expect("the suite");
    let (mut cases, mut differing) = (0, Vec::new());
    for scenario in suite::read(&text) {
        let stub = DnsStub::start().await;
        stub.set(scenario.zone);
        let resolver = resolver(&stub).await;
        for test in scenario.tests {
            let client = test.host.parse().expect("an address");
            let sender = match test.mail_from.as_str() {
                "" => format!("postmaster@{}", test.helo),
                named => named.to_owned(),
            };
            let result = spf::check(&resolver, client, &test.helo, &sender)
                .await
                .as_str();
            cases += 1;
            if !test.results.iter().any(|wanted| wanted == result) {
                let place = format!("{} / {}", scenario.description, test.name);
                differing.push(format!("{place}: {result}, not {:?}", test.results));
            }
        }
    }
    assert_eq!(cases, CASES, "the suite was not read whole");
    assert!(differing.is_empty(), "{differing:#?}");
}

#[tokio::test]
async fn a_record_that_never_ends_is_cut_off_after_ten_questions() {
    let stub = DnsStub::start().await;
    for n in 0..40 {
        stub.txt(
            &format!("n{n}.loop.test"),
            &format!("v=spf1 include:n{}.loop.test -all", n + 1),
        );
    }
    let resolver = resolver(&stub).await;
    let client = "203.0.113.5".parse().expect("an address");
    let result = spf::check(&resolver, client, "mx.loop.test", "a@n0.loop.test").await;
    assert_eq!(result, spf::SpfResult::PermError);
    assert_eq!(stub.asked().len(), 11, "{:?}", stub.asked());
}
