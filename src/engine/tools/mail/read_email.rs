//! `read_email`: one message whole, as far as everybody who reads the answer may read it.

use super::visibility::{
    MessagePeople, addresses, label_of, plain_line, scope_of, whoever_may_see,
};
use crate::domain::{MessageId, TextLabel, Trust};
use crate::store::{OpenedMessage, ReadersRule};
use crate::tools::contract::*;

/// Most attachments that are listed; the others are counted.
const ATTACHMENTS_MAX: usize = 50;

/// Opens a mail with its whole text and the names of its attachments. If `truncated` is true, call again with `offset`
/// = `next_offset`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadEmail {
    /// Id from search_email. Default: the letter that you answer, with all that it quotes.
    id: Option<String>,
    #[schemars(with = "Option<i64>")]
    offset: Option<f64>,
}

impl TypedTool for ReadEmail {
    const NAME: &str = "read_email";
    const EFFECTS: Effects = Effects::READS_PRIVATE;
    const RESULT_WORDS: ResultWords = ResultWords::Letters;
    const USES: ToolCapabilities = uses!(mail, letters);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let opened = open(call.env.letters()?, call.env.mail()?, self.id.as_deref()).await?;
        let (message, max) = (&opened.message, call.limits.result_bytes_max);
        let described = |piece: TextPiece<'_>| described(message, opened.scope, piece);
        let offset = count(self.offset, 0);
        let result = fitting_piece(&message.text_body, offset, max, max, described);
        Ok(ToolOutcome::labelled(result, opened.label))
    }
}

/// A message that a run may read.
pub struct ReadableMessage {
    pub message: OpenedMessage,
    pub scope: &'static str,
    /// Label of its text.
    pub label: TextLabel,
}

/// Opens a message of the persona, or the one that the run answers. Errors: `message_not_found`, also for one that not
/// every reader of the answer may read.
pub async fn open(
    letters: MessageReader<'_>,
    mail: &MailPolicy,
    id: Option<&str>,
) -> Result<ReadableMessage, ToolError> {
    let id = id.map(str::trim).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| letters.trigger().clone(), MessageId::new);
    let is_trigger = id == *letters.trigger();
    let visible_to = match is_trigger {
        true => None,
        false => whoever_may_see(mail)?,
    };
    let rule = ReadersRule {
        trigger: letters.trigger(),
        visible_to: visible_to.as_deref(),
    };
    let message = letters.open(&id, rule).await?;
    let Some(message) = message else {
        let shown: String = plain_line(id.as_str());
        return refuse(
            "message_not_found",
            match is_trigger {
                true => {
                    "this run answers no letter; give the `id` of a mail that search_email shows"
                        .to_owned()
                }
                false => format!(
                    "there is no mail `{shown}` that everybody who reads your answer may read; give an `id` that search_email shows"
                ),
            },
        );
    };
    let scope = scope_of(visible_to.as_deref());
    let people = MessagePeople::from(&message);
    let label = match message.thread_id == *letters.thread() && !people.is_withheld() {
        // As where the history shows it.
        true if message.direction == "outbound" => TextLabel::default(),
        true => TextLabel::for_past_letter(Trust::parse_stored(&message.trust)),
        false => label_of(people, scope),
    };
    Ok(ReadableMessage {
        message,
        scope,
        label,
    })
}

fn described(opened: &OpenedMessage, scope: &str, piece: TextPiece<'_>) -> Value {
    let recipients: Value = serde_json::from_str(&opened.recipients_json).unwrap_or_default();
    let people = |field| plain_line(&addresses(&recipients, field).collect::<Vec<_>>().join(", "));
    let attachments: Vec<Value> = opened
        .attachments
        .iter()
        .take(ATTACHMENTS_MAX)
        .map(|attachment| {
            json!({
                "name": plain_line(&attachment.filename),
                "type": plain_line(&attachment.content_type),
                "size_bytes": attachment.size_bytes,
            })
        })
        .collect();
    let mut message = json!({
        "scope": scope,
        "id": opened.id.as_str(),
        "thread": opened.thread_id.as_str(),
        "direction": opened.direction,
        "date": opened.received_at.to_string(),
        "from": plain_line(&opened.sender),
        "to": people("to"),
        "cc": people("cc"),
        "subject": plain_line(&opened.subject),
        "attachments": attachments,
        "attachment_count": opened.attachments.len(),
        "size_bytes": piece.size_bytes,
        "offset": piece.offset,
        "content": piece.content,
        "truncated": piece.next_offset.is_some(),
        "next_offset": piece.next_offset,
    });
    if opened.direction == "inbound" {
        message["trust"] = json!(opened.trust);
    }
    if MessagePeople::from(opened).is_withheld() {
        message["sent"] = json!(false);
    }
    message
}
