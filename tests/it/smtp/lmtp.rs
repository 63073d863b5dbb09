//! LMTP on Unix sockets; what is said there stands in the dialogs.

use super::client::{Client, PATIENCE, house, settings, speak};
use super::smuggling::{smuggling_attempt, smuggling_sequences};
use crate::recording_intake::RecordingDoor;
use attache::config::{Limits, ListenAddress, ListenerKind};
use attache::gateway::ingress::smtp::{BoundSocket, SmtpSettings, serve};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

fn lmtp(limits: Limits) -> SmtpSettings {
    SmtpSettings {
        kind: ListenerKind::Lmtp,
        ..settings(limits)
    }
}

async fn open(path: &Path) -> std::io::Result<BoundSocket> {
    let address = ListenAddress::Unix {
        path: path.to_owned(),
        mode: 0o640,
    };
    BoundSocket::open(&address, lmtp(Limits::default())).await
}

#[tokio::test]
async fn a_socket_file_takes_letters_and_goes_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/lmtp.sock");
    let bound = open(&path).await.unwrap();
    assert_eq!(bound.address(), format!("unix:{}", path.display()));
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    let (intake, stop) = (Arc::new(RecordingDoor::new()), CancellationToken::new());
    let serving = tokio::spawn(serve(bound, intake.clone(), stop.clone()));
    let mut client = Client::new(Box::new(UnixStream::connect(&path).await.unwrap()));
    client.expect("220 mx.engine.test LMTP").await;
    client.send(b"LHLO front.example\r\n").await;
    while !client.line().await.unwrap().starts_with("250 ") {}
    client.say("MAIL FROM:<>", "250 *").await;
    client.say("RCPT TO:<ada@engine.test>", "250 *").await;
    client.say("RCPT TO:<bob@engine.test>", "250 *").await;
    client.say("DATA", "354 *").await;
    client.say("hi\r\n.", "250 2.0.0 stored").await;
    client.expect("250 2.0.0 stored").await;
    assert_eq!(intake.letters.lock().unwrap()[0].envelope.peer, None);
    client.say("QUIT", "221 *").await;
    client.hang_up().await;
    stop.cancel();
    timeout(PATIENCE, serving).await.expect("it ends").unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn only_a_socket_that_nobody_listens_on_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lmtp.sock");
    drop(UnixListener::bind(&path).unwrap()); // the file of a listener that crashed
    let bound = open(&path).await.unwrap();
    assert!(UnixStream::connect(&path).await.is_ok());
    let taken = open(&path).await.err().expect("somebody listens there");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    assert!(UnixStream::connect(&path).await.is_ok(), "and still does");
    drop(bound);
    std::fs::write(&path, "letters of a friend").unwrap();
    assert!(open(&path).await.is_err());
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "letters of a friend"
    );
}

#[tokio::test]
async fn no_letter_is_smuggled_by_lmtp() {
    for sequence in smuggling_sequences() {
        let attempt = smuggling_attempt(b"", &sequence);
        let attempt = [b"LHLO", &attempt[4..]].concat();
        for piece in [attempt.len(), 1] {
            let intake = Arc::new(RecordingDoor::new());
            let mut house = house(&intake, Limits::default());
            house.settings = Arc::new(lmtp(Limits::default()));
            let said = speak(&house, &attempt, piece).await;
            assert_eq!(intake.stored(), 0, "{sequence:?}: {said}");
            assert_eq!(said.matches("\r\n354 ").count(), 1, "{sequence:?}: {said}");
            assert!(
                said.lines().last().unwrap().starts_with("554 5."),
                "{sequence:?}: {said}"
            );
        }
    }
}
