//! The model `titles`, which is none: front ends ask their model for a title, tags and further questions behind each message, and
//! with this name they get words of the conversation, at no cost.

use serde_json::{Value, json};

/// Name of the model.
pub(super) const NAME: &str = "titles";
/// Words of a title.
const WORDS: usize = 8;
/// Most characters of a title.
const CHARS_MAX: usize = 80;

/// Answers the prompt of a front end: in the JSON that it asks for, or with a title alone.
pub(super) fn answer(prompt: &str) -> String {
    let title = title_of(first_message(prompt));
    let asks_for = |member: &str| {
        let typed = format!("\"{member}\"");
        // A prompt shows the form with blanks as it likes.
        prompt
            .split_once(typed.as_str())
            .is_some_and(|(_, rest)| rest.trim_start().starts_with(':'))
    };
    let members: [(&str, Value); 5] = [
        ("title", title.clone().into()),
        ("tags", json!([])),
        ("follow_ups", json!([])),
        ("queries", json!([])),
        ("text", "".into()),
    ];
    let asked = members.into_iter().find(|(member, _)| asks_for(member));
    match asked {
        Some((member, value)) => json!({ member: value }).to_string(),
        None => title,
    }
}

/// Returns the first message of the user in the conversation that a prompt quotes, or all of the prompt.
fn first_message(prompt: &str) -> &str {
    let quoted = prompt
        .rsplit_once("<chat_history>")
        .map_or(prompt, |(_, rest)| rest);
    let quoted = quoted
        .split_once("</chat_history>")
        .map_or(quoted, |(quoted, _)| quoted);
    let said = quoted
        .split_once("USER:")
        .or_else(|| quoted.split_once("user:"))
        .map_or(quoted, |(_, rest)| rest);
    said.split_once("ASSISTANT:").map_or(said, |(said, _)| said)
}

fn title_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(WORDS).collect();
    let title: String = words.join(" ").chars().take(CHARS_MAX).collect();
    match title.is_empty() {
        true => "Chat".to_owned(),
        false => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_words_in_the_form_that_is_asked_for() {
        let history = "<chat_history>\nUSER: When is breakfast on Sundays, and is there coffee, please?\nASSISTANT: At seven.\n</chat_history>";
        let title = "When is breakfast on Sundays, and is there";
        let open_webui = format!(
            "### Task:\nGenerate a title.\nJSON format: {{ \"title\": \"your title here\" }}\n{history}"
        );
        assert_eq!(answer(&open_webui), json!({ "title": title }).to_string());
        assert_eq!(answer(&format!("A title, please.\n{history}")), title);
        let tags = format!("JSON format: {{ \"tags\": [\"tag1\"] }}\n{history}");
        assert_eq!(answer(&tags), r#"{"tags":[]}"#);
        assert_eq!(answer("  "), "Chat");
    }
}
