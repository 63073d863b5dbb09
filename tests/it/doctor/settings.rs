//! Installations that are broken in their files: configuration, keys, personas.

use super::Case;
use super::house::{House, Made, NOBODY, broken, kept};
use serde_json::{Value, json};

pub static CASES: &[Case] = &[
    Case::fault(
        "gateway.json is no JSON",
        "configuration",
        &["configs/gateway.json", "is not JSON"],
        "",
        |house| house.write("configs/gateway.json", "{ 'mail_domain': \"house.test\" }"),
    ),
    Case::fault(
        "a misspelt key",
        "configuration",
        &["ownners", "unknown key"],
        "did you mean `owners`",
        |house| house.gateway("/ownners", json!(["olga@home.test"])),
    ),
    Case::fault(
        "no inference.json",
        "configuration",
        &["configs/inference.json", "there is no such file"],
        "",
        |house| house.remove("configs/inference.json"),
    ),
    Case::fault(
        "a zone that is none",
        "personas",
        &["personas/nora/persona.json", "Europe/Bonn"],
        "",
        |house| {
            house.set(
                "personas/nora/persona.json",
                "/timezone",
                json!("Europe/Bonn"),
            )
        },
    ),
    Case::fault(
        "a configuration that others may write",
        "configuration",
        &["configs", "may be written by other users", "mode 0777"],
        "chmod -R go-w configs",
        |house| {
            house.chmod(".", 0o755);
            house.chmod("configs", 0o777)
        },
    ),
    Case::warning(
        "a file of the configuration that a group of the engine's may write",
        "configuration",
        &[
            "configs/gateway.json",
            "in a group of this engine's",
            "mode 0660",
        ],
        "chmod -R go-w configs",
        |house| {
            house.chmod(".", 0o750);
            house.chmod("configs", 0o750);
            house.chmod("configs/gateway.json", 0o660)
        },
    ),
    Case::fault(
        "a program of a tool that others may write",
        "programs",
        &["configs/tools/stock/run", "mode 0777"],
        "doctor --fix",
        |house| {
            let tool = json!({
                "description": "Counts.", "arguments": { "properties": {} }, "command": ["./run"], "class": "once", "effects": {},
            });
            house.write("configs/tools/stock/tool.json", &tool.to_string());
            house.write("configs/tools/stock/run", "#!/bin/sh\necho 12\n");
            house.chmod("configs/tools/stock/run", 0o777);
            for folder in [".", "configs", "configs/tools", "configs/tools/stock"] {
                house.chmod(folder, 0o755);
            }
            broken()
        },
    ),
    Case::fault(
        "a skill that others may write",
        "configuration",
        &["skills", "mode 0777"],
        "chmod -R go-w skills",
        |house| {
            house.write(
                "skills/tea/SKILL.md",
                "---\nname: tea\ndescription: Tea.\n---\nPour.\n",
            );
            house.chmod(".", 0o755);
            house.chmod("skills", 0o777)
        },
    ),
    Case::fault(
        "a workspace into which others may write",
        "configuration",
        &["may be written by other users", "mode 0777"],
        "chmod go-w .",
        |house| house.chmod(".", 0o777),
    ),
    Case::warning(
        "nobody owns it",
        "configuration",
        &["nobody owns this engine"],
        "owners",
        |house| house.gateway("/owners", json!([])),
    ),
    Case::warning(
        "no way out",
        "configuration",
        &["no way out"],
        "smarthost",
        |house| {
            let document = house.read("configs/gateway.json");
            let mut document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
            document
                .as_object_mut()
                .expect("an object")
                .remove("outbound");
            house.write("configs/gateway.json", &format!("{document:#}"))
        },
    ),
    Case::warning(
        "a misspelt folder",
        "configuration",
        &["no folder `incomming`"],
        "`incoming` lies beside it",
        |house| house.gateway("/folders/0/path", json!("incomming")),
    ),
    Case::warning(
        "allowed and denied",
        "configuration",
        &["in `allow` and in `deny`"],
        "one of the two lists",
        |house| {
            house.set(
                "configs/security.json",
                "/access",
                json!({ "allow": ["*@a.test"], "deny": ["*@a.test"] }),
            )
        },
    ),
    Case::fault(
        "a budget without a price",
        "configuration",
        &["nobody knows what `scripted`"],
        "",
        |house| {
            house.write(
                "configs/prices.json",
                "{ \"version\": \"1\", \"prices\": [] }",
            );
            house.set("configs/inference.json", "/budget/day_usd_max", json!(5))
        },
    ),
    Case::warning(
        "an edit beside an engine",
        "configuration",
        &["counts after a restart", "listening on 127.0.0.2:0"],
        "start the engine anew",
        |house| {
            let engine = house.serve();
            let gateway = house.read("configs/gateway.json");
            let mut gateway: Value = serde_json::from_str(&gateway).expect("JSON");
            let listeners = gateway["listeners"].as_array_mut().expect("a list");
            listeners.push(json!({ "kind": "smtp", "address": "127.0.0.2:0" }));
            house.write("configs/gateway.json", &gateway.to_string());
            assert!(house.run(&["reload"]).status.success());
            kept(engine)
        },
    ),
    Case::fault(
        "keys that others may read",
        "keys",
        &[".secrets", "its mode is 0644"],
        "chmod 600 .secrets",
        |house| house.chmod(".secrets", 0o644),
    ),
    Case::fault(
        "keys of another user",
        "keys",
        &[".secrets", "belongs to the user with the number 65534"],
        "chown",
        |house| house.chown(".secrets", NOBODY),
    ),
    Case::fault(
        "a comment behind a key",
        "keys",
        &[".secrets:1:1", "a comment"],
        "a line of its own",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=sk-1 # mine\n"),
    ),
    Case::warning(
        "half a quotation",
        "keys",
        &[".secrets:1:1", "quotation mark"],
        "take the one out",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=\"sk-1\n"),
    ),
    Case::warning(
        "a placeholder for a key",
        "keys",
        &["placeholder"],
        "the key that the provider shows",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=<your key>\n"),
    ),
    Case::warning(
        "a key as a page of ours shows it",
        "keys",
        &["`ANTHROPIC_API_KEY` looks like a placeholder"],
        "the key that the provider shows",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=sk-ant-put-yours-here\n"),
    ),
    Case::warning(
        "a placeholder in the environment",
        "keys",
        &["`OPENAI_API_KEY` in the environment looks like a placeholder"],
        "the key that the provider shows",
        |house| {
            house
                .environment
                .borrow_mut()
                .push(("OPENAI_API_KEY", "sk-put-yours-here".to_owned()));
            broken()
        },
    ),
    Case::warning(
        "a key with its scheme",
        "keys",
        &["`Bearer`"],
        "the key alone",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=Bearer sk-1\n"),
    ),
    Case::warning(
        "a misspelt name of a key",
        "keys",
        &["nothing reads `ANTHROPIC_API_KY`"],
        "did you mean `ANTHROPIC_API_KEY`",
        |house| house.write(".secrets", "ANTHROPIC_API_KY=sk-1\n"),
    ),
    Case::fault(
        "a key without a value",
        "keys",
        &[".secrets:2:1", "has no value"],
        "",
        |house| house.write(".secrets", "ANTHROPIC_API_KEY=sk-1\nOPENAI_API_KEY=\n"),
    ),
    Case::fault("keys in a folder", "keys", &[".secrets"], "", |house| {
        house.remove(".secrets");
        std::fs::create_dir(house.path().join(".secrets")).expect("a folder");
        house.chmod(".secrets", 0o700)
    }),
    Case::warning(
        "an empty variable",
        "keys",
        &["`OPENAI_API_KEY` is set in the environment, and empty"],
        "take it out",
        |house| {
            house
                .environment
                .borrow_mut()
                .push(("OPENAI_API_KEY", String::new()));
            broken()
        },
    ),
    Case::warning(
        "two values of a key",
        "keys",
        &["`ANTHROPIC_API_KEY` has another value in the environment"],
        "one of the two",
        |house| {
            house
                .environment
                .borrow_mut()
                .push(("ANTHROPIC_API_KEY", "sk-2".to_owned()));
            broken()
        },
    ),
    Case::warning(
        "a server elsewhere that gets no key",
        "configuration",
        &[
            "configs/inference.json",
            "`compat:house` is asked without a key",
        ],
        "`api_key_variable`",
        |house| {
            let block = json!({ "base_url": "https://models.test/v1" });
            house.set("configs/inference.json", "/providers/compat:house", block)
        },
    ),
    Case::warning(
        "the API of a vendor without a key",
        "configuration",
        &["`gemini` is asked without a key"],
        "GEMINI_API_KEY=…",
        |house| {
            let block = json!({ "base_url": "http://127.0.0.1:4000" });
            house.set("configs/inference.json", "/providers/gemini", block)
        },
    ),
    Case::fault(
        "a provider without a key",
        "keys",
        &["`openai` has no key", "`OPENAI_API_KEY` is not set"],
        "`.secrets`",
        |house| {
            house.set("configs/inference.json", "/model", json!("gpt-4.1"));
            house.set("configs/inference.json", "/provider", json!("openai"))
        },
    ),
    Case::fault(
        "no PERSONA.md",
        "personas",
        &["personas/nora/PERSONA.md"],
        "",
        |house| house.remove("personas/nora/PERSONA.md"),
    ),
    Case::warning(
        "an empty PERSONA.md",
        "personas",
        &["personas/nora/PERSONA.md", "is empty"],
        "who the persona is",
        |house| house.write("personas/nora/PERSONA.md", ""),
    ),
    Case::fault(
        "no persona.json",
        "personas",
        &["personas/nora/persona.json", "there is no such file"],
        "",
        |house| house.remove("personas/nora/persona.json"),
    ),
    Case::fault(
        "a folder that is no persona",
        "personas",
        &["personas/Not One"],
        "rename the folder",
        |house| {
            std::fs::create_dir(house.path().join("personas/Not One")).expect("a folder");
            house.chmod("personas/Not One", 0o700)
        },
    ),
    Case::note(
        "a persona that was removed",
        "personas",
        &["personas/porter", "its folder is gone"],
        "put the folder back",
        |house| house.remove("personas/porter"),
    ),
    Case::fault(
        "a removed persona with work",
        "personas",
        &["personas/porter", "1 of its runs wait"],
        "put the folder back",
        removed_at_work,
    ),
    Case::warning(
        "a file that is no knowledge",
        "personas",
        &[
            "personas/nora/knowledge/plan.bin",
            "is not read as knowledge",
        ],
        "as text",
        |house| house.write("personas/nora/knowledge/plan.bin", "\u{1}\u{2}\u{0}"),
    ),
    Case::fault(
        "a duty without an end",
        "personas",
        &["personas/nora/responsibilities/digest.md"],
        "",
        |house| {
            house.write(
                "personas/nora/responsibilities/digest.md",
                "---\nname: Digest\nschedule: 0 9 * * *\nSay hello.\n",
            )
        },
    ),
];

fn removed_at_work(house: &House) -> Made {
    let letter = house.read("letter.eml").replace("<a@", "<b@");
    house.write("letter.eml", &letter);
    house.run(&["ingest", "letter.eml"]);
    house.remove("personas/porter")
}
