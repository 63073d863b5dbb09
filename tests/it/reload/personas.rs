//! Personas come and go beside a serving engine.

use super::{Caller, Serving, answering};
use crate::app::{TestApp, Workspace, letter, note};
use attache::domain::{Address, Letter};
use attache::gateway::ingress::smtp::{ServerContext, serve_session};
use attache::gateway::intake_contract::{
    Accepted, LetterIntake, RecipientVerdict, Refusal, SenderVerdict, Shortage,
};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::io::BufReader;
use tokio_util::sync::CancellationToken;

const ANSWERED: &str =
    "SELECT count(*) FROM runs r WHERE r.persona_id = 'eve' AND r.state = 'succeeded'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_new_persona_takes_mail_within_seconds_by_itself() {
    let house = Serving::start(Workspace::new(&answering())).await;
    let mut caller = Caller::of(house.mail).await;
    let before = caller.bring("eve@engine.test", "e0").await;
    assert!(before.starts_with("550"), "{before}");
    house.workspace.persona("eve", "Eve");
    house.workspace.write(
        "personas/eve/responsibilities/tea.md",
        "---\nname: Tea\nschedule: \"0 10 * * *\"\ntimezone: UTC\n---\nMake tea.\n",
    );
    house.read_after(0).await;
    // On the same connection: a session is not bound to the configuration of its beginning.
    let said = caller.bring("eve@engine.test", "e1").await;
    assert!(said.starts_with("250"), "{said}");
    house.until(ANSWERED, 1).await;
    let duties = "SELECT count(*) FROM responsibilities WHERE persona_id = 'eve' AND error IS NULL";
    house.until(duties, 1).await;
    assert_eq!(house.workspace.notices().len(), 0);
    let workspace = house.ended().await;
    workspace.start().await.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persona_that_is_removed_in_the_middle_of_a_letter_still_takes_it() {
    let workspace = Workspace::new(&answering());
    workspace.persona("eve", "Eve");
    let house = Serving::start(workspace).await;
    let mut caller = Caller::of(house.mail).await;
    let said = caller.address("eve@engine.test").await;
    assert!(said.starts_with("250"), "{said}");
    let home = house.workspace.path().join("personas/eve");
    let away = house.workspace.path().join("eve-away");
    std::fs::rename(&home, &away).expect("away");
    assert!(house.reload().await.refused.is_empty());
    let said = caller.letter("eve@engine.test", "m1").await;
    assert!(said.starts_with("250"), "{said}");
    let said = caller.bring("eve@engine.test", "m2").await;
    assert!(said.starts_with("550"), "the next one is refused: {said}");
    let said = caller.bring("ada@engine.test", "m3").await;
    assert!(said.starts_with("250"), "{said}");
    let ada = "SELECT count(*) FROM runs WHERE persona_id = 'ada' AND state = 'succeeded'";
    house.until(ada, 1).await;
    let waits = "SELECT count(*) FROM runs WHERE persona_id = 'eve' AND state = 'queued'";
    house.until(waits, 1).await;
    std::fs::rename(&away, &home).expect("back");
    house.reload().await;
    house.until(ANSWERED, 1).await;
    house.ended().await.start().await.check().await;
}

/// An intake that is asked anew at every step of a letter: what the engine's would be without one value for each letter.
struct AskedAnew(Arc<dyn LetterIntake>);

impl LetterIntake for AskedAnew {
    fn recipient(&self, address: &Address) -> RecipientVerdict {
        self.0.recipient(address)
    }
    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict {
        self.0.sender(mail_from)
    }
    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>> {
        self.0.accept(letter)
    }
    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()> {
        self.0.confirm(accepted)
    }
    fn has_room(&self) -> bool {
        self.0.has_room()
    }
    fn short_of(&self, what: Shortage) {
        self.0.short_of(what);
    }
}

/// The reply to a letter to Eve, who is removed between its recipient and its data.
async fn removed_between(of_letter: bool) -> String {
    let workspace = Workspace::new(&answering());
    workspace.persona("eve", "Eve");
    let app = workspace.start().await;
    let bound = app.engine.bind().await.expect("a port").remove(0);
    let settings = (*bound.settings().get()).clone();
    let intake: Arc<dyn LetterIntake> = match of_letter {
        true => app.engine.intake(),
        false => Arc::new(AskedAnew(app.engine.intake())),
    };
    let server = ServerContext::new(intake, settings, CancellationToken::new());
    let (client, peer) = tokio::io::duplex(64 * 1024);
    let session = tokio::spawn(async move { serve_session(peer, None, &server).await });
    let mut caller = Caller(BufReader::new(Box::new(client)));
    caller.hear().await;
    caller.say("EHLO guest.example").await;
    let said = caller.address("eve@engine.test").await;
    assert!(said.starts_with("250"), "{said}");
    std::fs::remove_dir_all(app.workspace.path().join("personas/eve")).expect("removed");
    assert!(app.engine.reload().await.expect("good").is_new);
    let said = caller.letter("eve@engine.test", "r1").await;
    caller.say("QUIT").await;
    session.await.expect("it ends");
    said
}

#[tokio::test]
#[ignore = "second tier"]
async fn without_one_configuration_for_each_letter_a_letter_would_be_refused() {
    let said = removed_between(true).await;
    assert!(said.starts_with("250"), "{said}");
    let said = removed_between(false).await;
    assert!(said.starts_with("55"), "the control: {said}");
}

#[tokio::test]
async fn a_run_that_waits_for_its_persona_goes_on_when_it_comes() {
    let workspace = Workspace::new(&answering());
    workspace.persona("eve", "Eve");
    let app = workspace.start().await;
    let to_eve = note("e1@guest.example", "", "Hello").replace("ada@", "eve@");
    let run = app.run_of(&to_eve).await;
    let (home, away) = (
        app.workspace.path().join("personas/eve"),
        app.workspace.path().join("eve-away"),
    );
    std::fs::rename(&home, &away).expect("away");
    app.engine.reload().await.expect("good");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "queued");
    let refused = app.engine.intake().accept(letter(&to_eve)).await;
    assert!(
        matches!(refused, Err(Refusal::NobodyAddressed)),
        "{refused:?}"
    );
    std::fs::rename(&away, &home).expect("back");
    app.engine.reload().await.expect("good");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_read() {
    let app = TestApp::start(answering()).await;
    let mut reloader = app.engine.reloader();
    let whole = r#"{ "name": "Eve", "address": "eve" }"#;
    app.workspace
        .write("personas/eve/PERSONA.md", "Eve answers letters.");
    let knows_eve = || app.engine.config_in_force().personas.iter().count() == 2;
    for end in [1, 9, whole.len() - 1] {
        app.workspace
            .write("personas/eve/persona.json", &whole[..end]);
        reloader.look().await.expect("looked");
        assert!(!knows_eve());
    }
    app.workspace.write("personas/eve/persona.json", whole);
    reloader.look().await.expect("looked");
    assert!(!knows_eve(), "it may still be written");
    assert_eq!(app.notices().len(), 0);
    reloader.look().await.expect("looked");
    assert!(knows_eve(), "it was the same at two looks");
    app.drain().await;
    assert_eq!(app.notices().len(), 0, "no half of it was ever read");
}
