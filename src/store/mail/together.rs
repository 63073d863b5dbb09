//! Waiting letters of one thread are answered by one run (decision D-170): a letter ends the run of the letter before it, if that has
//! not begun, and its own run answers both.
//!
//! The letter before is read from the thread's history. So it is short, and has nothing that only the run of a letter reads: no
//! attachment, no invitation. Between the two is no other letter, such as a command, and no reset.

use crate::domain::{RunId, Timestamp};
use crate::store::Result;
use crate::store::db::Connection;
use crate::store::sql::to_i64;

/// Characters of the longest letter that another run answers.
const LETTER_CHARS_MAX: i64 = 3000;

/// `n` and `l` are the new run and its letter, `o` and `e` the earlier ones.
const END_EARLIER: &str = "
    UPDATE runs SET state = 'cancelled', stop_reason = 'answered_together', finished_at = $4, answered_by = $1
    WHERE state = 'queued' AND attempt = 0 AND id IN (
      SELECT o.id FROM runs n CROSS JOIN messages l CROSS JOIN messages e CROSS JOIN runs o
      WHERE n.id = $1 AND l.id = n.trigger_message_id
        AND e.seq = (SELECT m.seq FROM messages m
          WHERE m.thread_id = l.thread_id AND m.seq < l.seq AND m.direction <> 'outbound' ORDER BY m.seq DESC LIMIT 1)
        AND o.trigger_message_id = e.id AND o.state = 'queued' AND o.attempt = 0 AND o.trigger = 'email' AND o.letters < $2
        AND o.persona_id = n.persona_id AND o.profile = n.profile AND o.budget_micros IS NOT DISTINCT FROM n.budget_micros
        AND o.run_options_json IS NOT DISTINCT FROM n.run_options_json AND o.output_schema IS NOT DISTINCT FROM n.output_schema
        AND e.sender = l.sender AND e.trust = l.trust AND e.recipients_json = l.recipients_json AND e.hops = l.hops
        AND e.readers_json IS NOT DISTINCT FROM l.readers_json
        AND length(e.text_body) <= $3 AND coalesce(e.metadata_json, '') NOT LIKE '%\"calendar\"%'
        AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.message_id = e.id)
        AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = l.thread_id AND x.after_seq >= e.seq))
    RETURNING letters";
const ANSWERS: &str = "UPDATE runs SET letters = $2 WHERE id = $1";

/// Has a run that was queued just now answer the letter before its own too, if that one waits: at most `letters_max` together.
pub async fn answer(
    conn: &mut Connection,
    run: &RunId,
    letters_max: usize,
    now: Timestamp,
) -> Result<()> {
    if letters_max < 2 {
        return Ok(());
    }
    let earlier: Option<i64> = conn
        .maybe(
            END_EARLIER,
            (run, to_i64(letters_max), LETTER_CHARS_MAX, now),
        )
        .await?;
    if let Some(letters) = earlier {
        conn.exec(ANSWERS, (run, letters + 1)).await?;
    }
    Ok(())
}
