//! The mistakes that a newcomer made in an afternoon, and that the program did not explain: each is explained.

use super::place::{Place, explained};

const GATEWAY: &str = "configs/gateway.json";
const SECURITY: &str = "configs/security.json";
const DUTY: &str = "personas/porter/responsibilities/digest.md";

#[test]
#[ignore = "second tier"]
fn what_was_explained_badly_says_file_place_cause_and_remedy() {
    explained("newcomer_bad.txt", 16);
}

#[test]
#[ignore = "second tier"]
fn what_was_half_explained_says_file_place_cause_and_remedy() {
    explained("newcomer_half.txt", 34);
}

#[test]
fn a_workspace_without_mistakes_is_summed_up_without_warnings() {
    let place = Place::new();
    let said = place.run(&["config", "check", "--strict"]);
    let wanted = "the configuration is good
lives here   porter@house.test
comes in     SMTP at 127.0.0.1:2525 (without TLS), folder incoming
is answered  anna@people.test (owner), *@friends.test, everybody else, if the letter proves who sent it
is refused   *@spam.test
answers      scripted/demo, $3.00 in, $15.00 out per million tokens
goes out     at once, into the folder data/outbox, and to nobody
is told      anna@people.test
";
    assert_eq!((said.code, said.text.as_str()), (0, wanted));
    let json: serde_json::Value =
        serde_json::from_str(&place.run(&["config", "check", "--json"]).text)
            .expect("one JSON value");
    assert_eq!(json["problems"], serde_json::json!([]));
    assert_eq!(
        json["summary"]["models"][0]["usd_per_million"],
        serde_json::json!(["3.00", "15.00"])
    );
}

#[test]
fn byte_order_marks_and_foreign_line_ends_do_no_harm() {
    let place = Place::new();
    place.write(
        ".secrets",
        "\u{feff}OPENAI_API_KEY=\"sk # 1\"\r\nANTHROPIC_API_KEY=k#2\r\n",
    );
    place.write(SECURITY, "\u{feff}{\r\n}\r\n");
    let said = place.run(&["config", "check"]);
    assert_eq!(said.code, 0, "{}", said.text);
}

#[test]
fn an_address_that_cannot_be_had_says_why() {
    let place = Place::new();
    place.replace(GATEWAY, "127.0.0.1:2525", "203.0.113.9:2525");
    let said = place.run(&["serve"]);
    assert_eq!(said.code, 1, "{}", said.text);
    assert!(
        said.text.contains(
            "hint: this machine does not have that address: `ip address` lists those it has"
        ),
        "{}",
        said.text
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").to_string();
    std::fs::write(place.path(GATEWAY), format!("{{\"mail_domain\": \"house.test\", \"owners\": [\"anna@people.test\"], \"listeners\": [{{\"address\": \"{port}\"}}]}}")).expect("an edit");
    let said = place.run(&["serve"]);
    assert!(
        said.text
            .contains("hint: another program has that address (`ss -lntxp` shows which)"),
        "{}",
        said.text
    );
}

#[test]
fn a_file_in_the_place_of_the_data_folder_is_said_to_be_one() {
    let place = Place::new();
    place.write("data", "notes");
    let said = place.run(&["drain"]);
    assert_eq!(said.code, 73, "{}", said.text);
    assert!(
        said.text
            .contains("/data` is a file; the engine needs a folder of that name"),
        "{}",
        said.text
    );
}

#[test]
fn responsibilities_of_one_name_are_told_apart_by_their_files() {
    let place = Place::new();
    place.write(
        "personas/porter/responsibilities/again.md",
        "---\nname: Morning digest\nevery: 90m\n---\nLook.\n",
    );
    let said = place.run(&["schedule", "run", "Morning digest"]);
    assert_eq!(said.code, 2, "{}", said.text);
    let wanted = "hint: name the file instead: `personas/porter/responsibilities/again.md` or `personas/porter/responsibilities/digest.md`";
    assert!(said.text.contains(wanted), "{}", said.text);
    let said = place.run(&[
        "schedule",
        "run",
        "personas/porter/responsibilities/again.md",
    ]);
    assert_eq!(said.code, 0, "{}", said.text);
}

#[test]
fn an_instant_that_went_by_is_past_and_not_done() {
    let place = Place::new();
    place.replace(DUTY, "schedule: 0 9 * * mon-fri", "at: 2020-01-01 09:00");
    let said = place.run(&["schedule", "list"]);
    assert!(said.text.contains("\tpast\t"), "{}", said.text);
}

#[test]
fn a_model_without_a_price_and_an_unread_file_are_warned_of() {
    let place = Place::new();
    place.write(".secrets", "OPENAI_API_KEY=sk-1\n");
    place.replace(
        "configs/inference.json",
        "\"scripted\",\n  \"model\": \"demo\"",
        "\"openai\",\n  \"model\": \"new\"",
    );
    place.write("personas/porter/knowledge/plan.zip", "PK");
    let said = place.run(&["config", "check"]);
    assert_eq!(said.code, 0, "{}", said.text);
    for wanted in [
        "configs/inference.json:3:12: model: nobody knows what `new` of `openai` costs: `attache usage` will show `?` for it; add \
         `{\"provider\": \"openai\", \"model\": \"new\", ",
        "personas/porter/knowledge/plan.zip: is not read as knowledge: not a kind of file that is read",
    ] {
        assert!(said.text.contains(wanted), "{wanted}\n{}", said.text);
    }
    assert_eq!(place.run(&["config", "check", "--strict"]).code, 65);
}

#[test]
fn an_address_of_nobody_is_answered_by_those_that_there_are() {
    let place = Place::new();
    place.write("letter.eml", "From: anna@people.test\n\nHello\n");
    let said = place.run(&["ingest", "--to", "poter@house.test", "letter.eml"]);
    assert_eq!(said.code, 66, "{}", said.text);
    assert!(
        said.text.contains("hint: there are: `porter@house.test`"),
        "{}",
        said.text
    );
}
