//! Messages of JSON-RPC 2.0, as the Model Context Protocol uses them. Pure.

use serde_json::{Map, Value, json};

/// Version of the protocol that is asked for.
const VERSION: &str = "2025-06-18";
/// Number by which JSON-RPC says that a method is not offered.
const METHOD_NOT_FOUND: i64 = -32601;
/// Most characters of a server's own error that are kept.
const ERROR_CHARS_MAX: usize = 2000;

/// A message from a server, as far as it concerns the request that waits.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// Answer to our request: a result, or the server's own error.
    Answer(Result<Value, String>),
    /// Request of the server, with what we answer.
    Request { reply: Value },
    /// Announcement, or a message that answers nothing that waits; it is counted and dropped.
    Other,
}

pub fn request(id: &str, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

/// Returns what `initialize` says of us.
pub fn greeting() -> Value {
    let client = json!({ "name": "attache", "version": env!("CARGO_PKG_VERSION") });
    json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": client })
}

/// Reads a message; `id` is of our request that waits. Ids are not to be guessed, so no server can answer what it was not
/// asked yet, or under the id of another request.
pub fn incoming(message: &Value, id: &str) -> Incoming {
    let Some(members) = message.as_object() else {
        return Incoming::Other;
    };
    match (members.get("method"), members.get("id")) {
        (Some(method), Some(theirs)) => Incoming::Request {
            reply: reply(method.as_str().unwrap_or_default(), theirs),
        },
        (None, Some(theirs)) if theirs == id => answer(members),
        _ => Incoming::Other,
    }
}

/// Answers a request of the server: only that we are there. Sampling, roots and elicitation are not offered.
fn reply(method: &str, id: &Value) -> Value {
    match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            let error =
                json!({ "code": METHOD_NOT_FOUND, "message": "this client does not offer it" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

fn answer(members: &Map<String, Value>) -> Incoming {
    match (members.get("result"), members.get("error")) {
        (Some(result), None) => Incoming::Answer(Ok(result.clone())),
        (None, Some(error)) => {
            let said = error["message"]
                .as_str()
                .unwrap_or("an error without words");
            Incoming::Answer(Err(said.chars().take(ERROR_CHARS_MAX).collect()))
        }
        _ => Incoming::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_what_waits_is_one() {
        let of = |message: Value| incoming(&message, "a");
        let answered = json!({ "jsonrpc": "2.0", "id": "a", "result": { "x": 1 } });
        assert_eq!(of(answered), Incoming::Answer(Ok(json!({ "x": 1 }))));
        let failed =
            json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": 1, "message": "no" } });
        assert_eq!(of(failed), Incoming::Answer(Err("no".to_owned())));
        for other in [
            json!({ "jsonrpc": "2.0", "id": "b", "result": {} }),
            json!({ "jsonrpc": "2.0", "id": null, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "a" }),
            json!({ "jsonrpc": "2.0", "id": "a", "result": {}, "error": {} }),
            json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
            json!([answered_twice()]),
            json!("a"),
        ] {
            assert_eq!(of(other.clone()), Incoming::Other, "{other}");
        }
        for method in [
            "sampling/createMessage",
            "roots/list",
            "elicitation/create",
            "tools/call",
        ] {
            let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": {} });
            let Incoming::Request { reply } = of(asked) else {
                panic!("{method} is a request");
            };
            assert_eq!(
                (&reply["id"], reply["error"]["code"].as_i64()),
                (&json!(7), Some(-32601))
            );
        }
        let ping = json!({ "jsonrpc": "2.0", "id": 8, "method": "ping" });
        let Incoming::Request { reply } = of(ping) else {
            panic!("a ping is a request");
        };
        assert_eq!(reply["result"], json!({}));
    }

    fn answered_twice() -> Value {
        json!({ "jsonrpc": "2.0", "id": "a", "result": {} })
    }
}
