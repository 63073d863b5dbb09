//! Wrong answers, each told at once with what the server said or with what would be right; nothing is written.

use super::world::World;
use crate::outbound::server::Script;
use std::net::TcpListener;

/// Flags that differ from good ones, the exit code, and the words of the message and its hint.
type Mistake<'a> = (&'a [(&'static str, &'a str)], i32, &'a [&'a str]);

async fn each(world: &World, mistakes: &[Mistake<'_>]) {
    for (changed, code, words) in mistakes {
        let said = world.setup(&world.with(changed)).await;
        assert_eq!(
            said.code, *code,
            "{changed:?}: {}{}",
            said.stdout, said.stderr
        );
        for word in *words {
            assert!(
                said.stderr.contains(word),
                "{changed:?}: {word}\n{}",
                said.stderr
            );
        }
        assert!(
            world.files().is_empty(),
            "{changed:?}: something was written"
        );
    }
}

/// Answers that can be none, without asking anybody.
#[rustfmt::skip]
const IMPOSSIBLE: &[Mistake<'_>] = &[
    (&[("owner", "olga at home")], 65, &["olga at home", "anna@example.org"]),
    (&[("owner", "Olga <olga@home.test>")], 65, &["write the address alone: `olga@home.test`"]),
    (&[("domain", "https://engine.test/")], 65, &["is not a domain name", "write the name alone: `engine.test`"]),
    (&[("persona", "Ada Lovelace")], 65, &["Ada Lovelace", "such as `paul`"]),
    (&[("owner", "ada@engine.test")], 65, &["`ada@engine.test` would be the persona's address and is an owner's"]),
    (&[("name", "Ada\u{7}")], 65, &["name"]),
    (&[("in", "pop3")], 65, &["`pop3` is none of the possible answers", "smtp, lmtp, imap, folder"]),
    (&[("in", "smtp"), ("listen", "2525")], 65, &["`2525` is not an address to listen on", "127.0.0.1:2525"]),
    (&[("imap-host", "127.0.0.1:143")], 65, &["is not a host name", "write the host alone: `127.0.0.1`"]),
    (&[("imap-host", "imap.rented.test")], 65, &["`none` would send password and mail in plain text", "use `implicit`"]),
    (&[("imap-port", "0")], 65, &["`0` is not a port", "from 1 to 65535"]),
    (&[("imap-password-file", "-")], 65, &["there is nothing in `ATTACHE_IMAP_PASSWORD`"]),
    (&[("out", "postcard")], 65, &["smarthost, folder"]),
    (&[("smtp-tls", "ssl")], 65, &["`ssl` is none of", "starttls, implicit, none"]),
    (&[("smtp-password-file", "-")], 65, &["this user's password is not in `ATTACHE_SMTP_PASSWORD`"]),
    (&[("smtp-password-file", "none.txt")], 66, &["`none.txt` cannot be read for --smtp-password-file"]),
    (&[("provider", "opnai")], 65, &["no provider `opnai`", "did you mean `openai`?"]),
    (&[("provider", "compat")], 65, &["no provider `compat`", "compat:NAME"]),
    (&[("provider", "compat:NAME")], 65, &["no provider `compat:NAME`"]),
    (&[("provider", "mistral")], 65, &["no provider `mistral`", "write one of: ", "ollama"]),
    (&[("timezone", "Berlin")], 65, &["no time zone `Berlin`", "did you mean `Europe/Berlin`?"]),
    (&[("reply", "drafts")], 65, &["`drafts` is none of the possible answers", "draft, final, tool_only"]),
    (&[("mail-provider", "outlook")], 65, &["`outlook` is none of", "gmail, fastmail"]),
    (&[("provider", "opnai"), ("smtp-port", "1")], 65, &["no provider `opnai`"]),
    (&[("base-url", "api.test/v1")], 65, &["`api.test/v1` is not a URL"]),
    (&[("base-url", "http://api.test/v1")], 65, &["in plain text"]),
    (&[("key-file", "two.txt")], 65, &["--key-file must hold one line"]),
    (&[("owner", "-"), ("model", "-")], 2, &["missing --owner, --model"]),
];

#[tokio::test]
#[ignore = "second tier"]
async fn what_can_be_no_answer_is_refused_with_what_would_be_one() {
    let world = World::new().await;
    world.write("two.txt", "one\ntwo\n");
    each(&world, IMPOSSIBLE).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_a_server_refuses_is_told_in_its_words() {
    let world = World::new().await;
    world.write("wrong.txt", "wrong");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = free.local_addr().expect("an address").to_string();
    let closed = closed_port();
    let nowhere = format!("http://127.0.0.1:{closed}");
    #[rustfmt::skip]
    let mistakes: &[Mistake<'_>] = &[
        (&[("imap-password-file", "wrong.txt")], 69, &["the server refuses the login: ", "go away", "app password"]),
        (&[("imap-user", "bob")], 69, &["bob at 127.0.0.1", "the server refuses the login: "]),
        (&[("imap-port", &closed)], 69, &["cannot reach the server", "hint: see host and port"]),
        (&[("in", "smtp"), ("listen", &taken)], 69, &["another program listens there", "ss -ltnp"]),
        (&[("in", "smtp"), ("listen", "192.0.2.1:2525")], 69, &["this machine has no such address"]),
        (&[("in", "lmtp"), ("listen", "unix:/nonexistent/x/lmtp.sock")], 69, &["there is no folder `/nonexistent/x`"]),
        (&[("smtp-port", &closed)], 69, &["cannot be used: ", "--smtp-host and --smtp-port"]),
        (&[("model", "model-b")], 69, &["`openai` answers, and has no model `model-b`", "did you mean `model-a`? it has "]),
        (&[("key-file", "wrong.txt")], 69, &["this key is nobody's", "OPENAI_API_KEY"]),
        (&[("key-file", "-")], 69, &["OPENAI_API_KEY"]),
        (&[("base-url", &nowhere)], 69, &["this machine reaches it"]),
    ];
    each(&world, mistakes).await;
    let refusals = [
        ("AUTH", "535", "5.7.8 no such password here", "app password"),
        (
            "MAIL",
            "553",
            "5.7.1 not your address here",
            "--bounce-address plain",
        ),
    ];
    for (verb, code, words, remedy) in refusals {
        world.smarthost.set(|script| {
            *script = Script {
                offers: vec!["AUTH PLAIN LOGIN"],
                replies: [(verb, format!("{code} {words}"))].into(),
                ..Script::default()
            };
        });
        each(&world, &[(&[], 69, &[code, words, remedy])]).await;
    }
}

#[tokio::test]
async fn a_file_that_is_no_json_is_left_alone() {
    let world = World::new().await;
    world.half("configs/gateway.json", "{ \"mail_domain\": }\n");
    let before = world.files();
    let said = world.setup(&world.flags()).await;
    assert_eq!(said.code, 65, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stderr
            .contains("`configs/gateway.json` cannot be changed"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("attache config check"),
        "{}",
        said.stderr
    );
    assert!(world.files() == before, "a file changed");
}

fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    address.port().to_string()
}

#[tokio::test]
async fn no_server_is_asked_before_every_answer_can_be_one() {
    let world = World::new().await;
    let wrong = world.with(&[("provider", "opnai")]);
    let said = world.setup(&wrong).await;
    assert_eq!(said.code, 65, "{}{}", said.stdout, said.stderr);
    let asked = || world.smarthost.heard(|heard| heard.commands.len());
    assert_eq!((asked(), said.stdout.as_str()), (0, ""));
    let unknown = world.with(&[("model", "model-b")]);
    let said = world.setup(&unknown).await;
    assert_eq!(said.code, 69, "{}{}", said.stdout, said.stderr);
    assert!(asked() > 0, "the smarthost is asked before the model");
}
