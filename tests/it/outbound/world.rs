//! A workspace with a real database, a clock that stands still, and mails to send.

use super::server::Server;
use crate::app::rows;
use crate::app::{database, db};
use attache::clock::ManualClock;
use attache::config::{MailRetry, MailTls, OnUnknown, Smarthost};
use attache::domain::{DeliveryId, Timestamp};
use attache::gateway::outbound::{Options, Outbound, SmtpTimeouts, SmtpTransport, Transport};
use attache::store::{
    Delivery, DeliveryRecipient, DeliveryState, OpenError, RecipientState, Store,
};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 24 * 3600);

pub fn start() -> Timestamp {
    Timestamp::parse("2026-03-01T09:00:00Z").expect("an instant")
}

pub struct House {
    pub folder: TempDir,
    pub clock: Arc<ManualClock>,
    pub store: Store,
}

/// Frozen bytes of a mail with that Message-ID, with every kind of dotted line.
pub fn bytes(id: &str) -> Vec<u8> {
    format!(
        "From: Ada <ada@engine.test>\r\nTo: you@example.test\r\nMessage-ID: <{id}@engine.test>\r\n\
         Subject: Dots\r\n\r\n.one\r\n..two\r\n.\r\n\r\nend.\r\n"
    )
    .into_bytes()
}

impl House {
    pub async fn new() -> Self {
        let folder = database::folder().await;
        let clock = Arc::new(ManualClock::at(start()));
        let store = Store::open(folder.path(), clock.clone())
            .await
            .expect("the database opens");
        Self {
            folder,
            clock,
            store,
        }
    }

    pub async fn database(&self) -> db::Connection {
        db::Connection::open(self.folder.path()).await
    }

    /// Queues a mail with the usual bytes.
    pub async fn mail(&self, id: &str, recipients: &[&str]) -> DeliveryId {
        self.mail_of(id, "ada@engine.test", recipients, &bytes(id))
            .await
    }

    pub async fn mail_of(
        &self,
        id: &str,
        from: &str,
        recipients: &[&str],
        bytes: &[u8],
    ) -> DeliveryId {
        let mut conn = self.database().await;
        // One transaction, as in the engine: a worker must not see a mail without its recipients.
        conn.begin().await.expect("a transaction");
        self.insert(&mut conn, (id, from), recipients, bytes).await;
        conn.commit().await.expect("a commit");
        DeliveryId::new(id)
    }

    /// Queues so many mails with the usual bytes and one recipient each.
    pub async fn mails(&self, count: usize) {
        let mut conn = self.database().await;
        conn.begin().await.expect("a transaction");
        for n in 0..count {
            let id = format!("mail-{n}");
            self.insert(
                &mut conn,
                (&id, "ada@engine.test"),
                &["you@example.test"],
                &bytes(&id),
            )
            .await;
        }
        conn.commit().await.expect("a commit");
    }

    async fn insert(
        &self,
        conn: &mut db::Connection,
        (id, from): (&str, &str),
        recipients: &[&str],
        bytes: &[u8],
    ) {
        let now = attache::clock::Clock::now(&*self.clock).to_string();
        rows::thread(conn, ("ada", "t", "Dots"), &now, &[]).await;
        let (message, message_id) = (format!("m-{id}"), format!("{id}@engine.test"));
        let row = rows::Message {
            id: &message,
            persona: "ada",
            thread: "t",
            direction: "outbound",
            message_id: &message_id,
            sender: "ada",
            recipients_json: "{}",
            subject: "Dots",
            body: "",
            received_at: &now,
            trust: "engine",
            disposition: "sent",
        };
        rows::message(conn, row).await;
        rows::delivery(conn, (id, &message, from), recipients, bytes, &now).await;
    }

    pub fn outbound(&self, server: &Server) -> Outbound {
        self.outbound_with(server, patient(), |_| {})
    }

    pub fn outbound_with(
        &self,
        server: &Server,
        timeouts: SmtpTimeouts,
        change: impl FnOnce(&mut Smarthost),
    ) -> Outbound {
        let options = Options {
            timeouts,
            extra_root_pem: None,
        };
        let transport = smtp(&self.clock, server, &options, change);
        self.outbound_over(Arc::new(transport))
    }

    pub fn outbound_over(&self, transport: Arc<dyn Transport>) -> Outbound {
        self.outbound_that(OnUnknown::default(), transport)
    }

    pub fn outbound_that(&self, on_unknown: OnUnknown, transport: Arc<dyn Transport>) -> Outbound {
        Outbound::new(
            self.store.clone(),
            transport,
            MailRetry {
                give_up_after: GIVE_UP_AFTER,
                on_unknown,
            },
        )
    }

    pub async fn delivery(&self, id: &DeliveryId) -> Delivery {
        self.store
            .delivery(id)
            .await
            .expect("the delivery is there")
            .delivery
    }

    /// State of the delivery and of its only recipient.
    pub async fn states(&self, id: &DeliveryId) -> (DeliveryState, RecipientState) {
        let delivery = self.delivery(id).await;
        (delivery.state, only(&delivery).state)
    }
}

pub fn only(delivery: &Delivery) -> &DeliveryRecipient {
    assert_eq!(delivery.recipients.len(), 1);
    &delivery.recipients[0]
}

pub fn smtp(
    clock: &Arc<ManualClock>,
    server: &Server,
    options: &Options,
    change: impl FnOnce(&mut Smarthost),
) -> SmtpTransport {
    let mut smarthost = Smarthost {
        host: "127.0.0.1".to_owned(),
        port: server.address.port(),
        tls: MailTls::None,
        credentials: None,
        connections_max: 4,
    };
    change(&mut smarthost);
    SmtpTransport::new(&smarthost, "engine.test", clock.clone(), options)
        .expect("the settings are good")
}

/// Longer than any busy machine needs.
pub fn patient() -> SmtpTimeouts {
    let long = Duration::from_secs(60);
    SmtpTimeouts {
        connect: long,
        greeting: long,
        command: long,
        data: long,
        data_block: long,
        data_done: long,
        quit: long,
    }
}

/// The lock is free once the writer of the store before has ended, which nothing waits for.
pub async fn reopened(folder: &TempDir, clock: &Arc<ManualClock>) -> Store {
    loop {
        match Store::open(folder.path(), clock.clone()).await {
            Ok(store) => return store,
            Err(OpenError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}
