//! `attache outbox show`: one delivery with its recipients and the reports on it.

use super::{named_failure, state, time};
use crate::cli::{CommandContext, Exit};
use crate::domain::{DeliveryId, ReportAction};
use crate::store::{Delivery, DeliveryRecipient, DeliveryReport, FrozenDelivery, Store};
use serde::Serialize;
use std::borrow::Cow;

pub async fn show(
    context: &CommandContext,
    store: &Store,
    id: &DeliveryId,
    raw: bool,
) -> anyhow::Result<Exit> {
    let FrozenDelivery { delivery, bytes } = store.delivery(id).await.map_err(named_failure)?;
    let reports = store.delivery_reports(&delivery.id).await?;
    if context.json() {
        context.screen.json(&DeliveryDetail {
            delivery: &delivery,
            reports: &reports,
            raw: raw.then(|| String::from_utf8_lossy(&bytes)),
        })?;
        return Ok(Exit::Ok);
    }
    if raw {
        context.screen.bytes(&bytes)?;
        return Ok(Exit::Ok);
    }
    let from = if delivery.envelope_from.is_empty() {
        "<>"
    } else {
        &delivery.envelope_from
    };
    context.screen.fields(&[
        ("Delivery", delivery.id.to_string()),
        ("Persona", delivery.persona.to_string()),
        ("Subject", delivery.subject.clone()),
        ("Sender", from.to_owned()),
        ("Size", format!("{} bytes", delivery.size_bytes)),
        ("State", state(&delivery)),
        ("Tries", delivery.attempts.to_string()),
        ("Next try", time(delivery.next_attempt_at)),
        ("Queued for", delivery.created_at.to_string()),
        ("Finished at", time(delivery.finished_at)),
        ("Message", delivery.message_id.to_string()),
        (
            "Run",
            delivery
                .run_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
    ])?;
    let lines: Vec<Vec<String>> = delivery.recipients.iter().map(recipient_line).collect();
    context.screen.line("")?;
    context.screen.table(
        &["RECIPIENT", "STATE", "TRIES", "NEXT", "LAST REPLY"],
        &lines,
    )?;
    if !reports.is_empty() {
        context.screen.line("")?;
        let lines: Vec<Vec<String>> = reports.iter().map(report_line).collect();
        context.screen.table(
            &["CAME BACK", "RECIPIENT", "SAYS", "REASON", "DIAGNOSTIC"],
            &lines,
        )?;
    }
    Ok(Exit::Ok)
}

/// Columns of a delivery report, with the evidence for its origin.
fn report_line(report: &DeliveryReport) -> Vec<String> {
    let status = report
        .status
        .as_deref()
        .map(|status| format!(" {status}"))
        .unwrap_or_default();
    let permanent = if report.is_hard { ", permanent" } else { "" };
    let doubt = if report.believed { "" } else { " (not proven)" };
    let says = if report.action == ReportAction::None {
        report.kind.as_str()
    } else {
        report.action.as_str()
    };
    vec![
        report.at.to_string(),
        report.recipient.clone(),
        format!("{says}{doubt}"),
        format!("{}{status}{permanent}", report.reason),
        report.diagnostic.clone(),
    ]
}

/// A delivery with the reports on it.
#[derive(Serialize)]
struct DeliveryDetail<'a> {
    #[serde(flatten)]
    delivery: &'a Delivery,
    reports: &'a [DeliveryReport],
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Cow<'a, str>>,
}

fn recipient_line(recipient: &DeliveryRecipient) -> Vec<String> {
    let code = recipient
        .last_code
        .map(|code| format!("{code} "))
        .unwrap_or_default();
    vec![
        recipient.recipient.clone(),
        recipient.state.as_str().to_owned(),
        recipient.attempts.to_string(),
        time(recipient.next_attempt_at),
        format!(
            "{code}{}",
            recipient.last_reply.as_deref().unwrap_or_default()
        ),
    ]
}
