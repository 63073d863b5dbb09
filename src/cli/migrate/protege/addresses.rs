//! Addresses as rows of the other program hold them: one, a list with commas, or JSON.

use crate::domain::Address;
use crate::mime::Header;
use crate::text::one_line;
use serde_json::Value;

/// Reads names and addresses; what is none is left out.
pub fn read(text: &str) -> Vec<(String, Address)> {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_) | Value::String(_))) => of_json(&value),
        _ => of_line(text),
    }
}

/// Reads names and addresses of a JSON value.
pub fn of_json(value: &Value) -> Vec<(String, Address)> {
    match value {
        Value::String(text) => of_line(text),
        Value::Array(items) => items.iter().flat_map(of_json).collect(),
        Value::Object(members) => {
            let text = |key: &str| members.get(key).and_then(Value::as_str);
            let address = text("address").or_else(|| text("email"));
            match address.map(|address| Address::parse(address.trim())) {
                Some(Ok(address)) => vec![(text("name").unwrap_or_default().to_owned(), address)],
                // An object of lists, such as `{"to": […]}` or mailparser's `{"value": […]}`.
                _ => ["value", "to"]
                    .iter()
                    .filter_map(|key| members.get(*key))
                    .flat_map(of_json)
                    .collect(),
            }
        }
        _ => Vec::new(),
    }
}

fn of_line(text: &str) -> Vec<(String, Address)> {
    let field = format!("To: {}\r\n\r\n", one_line(text));
    let mailboxes = Header::read(field.as_bytes()).mailboxes("to");
    let named = mailboxes.into_iter().filter_map(|mailbox| {
        let address = mailbox.address()?;
        Some((mailbox.name, address))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        let cases = [
            "bob@guest.example",
            "Bob <bob@guest.example>",
            "[\"bob@guest.example\"]",
            "[{\"address\": \"bob@guest.example\", \"name\": \"Bob\"}]",
            "{\"value\": [{\"email\": \"bob@guest.example\"}]}",
            "\"Bob <bob@guest.example>\"",
        ];
        for text in cases {
            let found = read(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].1.to_string(), "bob@guest.example", "{text}");
        }
        assert!(read("nobody").is_empty() && read("[3]").is_empty());
        assert_eq!(read("a@x.test, b@x.test").len(), 2);
    }
}
