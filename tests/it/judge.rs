//! Who may write, who is written to, and whom no machine may answer: each rule with what just misses it.

use crate::corpora::{corpus, files};
use crate::recording_intake::RecordingDoor;
use attache::config::{Access, Decision, Limits, Mode};
use attache::domain::{
    Address, Arrival, Email, Envelope, Identity, LoopToken, OwnMail, PersonaId, Trust, Via,
};
use attache::gateway::intake_contract::{RecipientVerdict, SenderVerdict};
use attache::gateway::judge::{self, MentionedMail, Origin, PolicyInput, Records};
use attache::mime::{ParseLimits, parse};

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// The rule that holds a letter of a known sender, for Ada, when our records know nothing of it.
fn rule(mail_from: Option<&str>, email: &Email) -> Option<&'static str> {
    judged(mail_from, email, &Records::default())
}

fn judged(mail_from: Option<&str>, email: &Email, records: &Records) -> Option<&'static str> {
    let envelope = Envelope {
        mail_from: mail_from.map(address),
        rcpt_to: vec![address("ada@engine.test")],
        helo: "client.example".into(),
        peer: None,
        via: Via::Smtp,
        arrival: Arrival::default(),
    };
    let intake = RecordingDoor::new();
    let persona = intake
        .personas
        .by_address(&address("ada@engine.test"))
        .unwrap();
    let identity = Identity {
        trust: Trust::Unknown,
        ..Identity::unverified("")
    };
    judge::automatic_mail_rule(&PolicyInput {
        is_form: false,
        envelope: &envelope,
        email,
        identity: &identity,
        persona,
        origin: judge::origin(&envelope, email, persona, &intake.personas, records),
        is_calendar_answer: false,
        conversation: records.conversation,
        personas: &intake.personas,
        access: &intake.access,
        limits: &Limits::default(),
    })
}

/// Judges a letter with an ordinary From and these further header lines.
fn header(lines: &str) -> Option<&'static str> {
    letter(&format!("From: Bob <bob@client.example>\n{lines}"))
}

fn read(header: &str) -> Email {
    let text =
        format!("To: ada@engine.test\n{}\n\nhello\n", header.trim_end()).replace('\n', "\r\n");
    parse(text.as_bytes(), &ParseLimits::default()).unwrap()
}

fn letter(header: &str) -> Option<&'static str> {
    rule(Some("bob@client.example"), &read(header))
}

/// Header lines by the rule that holds an answer back; `None`: near misses.
const MACHINE_HEADERS: &[(Option<&str>, &[&str])] = &[
    (
        Some("auto_submitted"),
        &[
            "Auto-Submitted: auto-replied",
            "Auto-Submitted: auto-generated",
            "auto-submitted: AUTO-NOTIFIED; owner-email=\"a@b.test\"",
            "Auto-Submitted: (why not) auto-replied (vacation)",
            "Auto-Submitted: something-new",
        ],
    ),
    (
        Some("report"),
        &[
            "Content-Type: multipart/report; report-type=delivery-status; boundary=x",
            "Content-Type: message/delivery-status",
            "Content-Type: MESSAGE/Disposition-Notification",
        ],
    ),
    (
        Some("list"),
        &[
            "List-Id: Birds <birds.list.test>",
            "List-Unsubscribe: <https://list.test/u>",
            "List-Post: NO",
            "list-help: <mailto:h@list.test>",
            "X-Mailman-Version: 2.1.39",
            "X-BeenThere: birds@list.test",
            "X-List-Processor-Version: 8",
            "X-Listserver: CommuniGate",
            "X-ListMember: bob@client.example",
        ],
    ),
    (
        Some("precedence"),
        &[
            "Precedence: list",
            "Precedence: bulk",
            "PRECEDENCE: Junk",
            "Precedence: \"bulk\"",
            "Precedence: \" list \"",
        ],
    ),
    (
        Some("auto_response_suppress"),
        &[
            "X-Auto-Response-Suppress: All",
            "X-Auto-Response-Suppress: DR, OOF, RN",
            "X-Auto-Response-Suppress: rn,autoreply",
        ],
    ),
    (
        Some("autoreply_header"),
        &[
            "X-Autoreply: yes",
            "X-Autorespond: on holiday",
            "X-Loop: bob@client.example",
            "X-MS-Exchange-Inbox-Rules-Loop: bob@client.example",
            "X-MS-Exchange-Generated-Message-Source: Mailbox Rules Agent",
            "X-Auto-Submitted: auto-replied",
            "X-Autosubmitted: yes",
            "X-Vacation: on",
            "X-Automatic-Reply: yes",
            "X-Mailer: vacation",
            "X-Mailer: vacation 1.2",
            "X-Mailer: Vacation/2",
            "X-Failed-Recipients: x@gone.example",
            "X-OTRS-Loop: yes",
            "X-OTOBO-Loop: yes",
            "X-Znuny-Loop: yes",
            "X-RT-Loop-Prevention: example",
            "X-ServiceNow-Generated: true",
            "X-Cron-Env: <SHELL=/bin/sh>",
            "X-Jira-Fingerprint: 7f3a",
            "X-Bugzilla-Reason: CC",
            "X-Redmine-Host: track.client.example",
            "X-Trac-Version: 1.4",
            "X-GitHub-Reason: mention",
            "X-GitLab-NotificationReason: assigned",
            "X-Launchpad-Notification-Type: bug",
            "X-Facebook-Notify: page",
            "X-LinkedIn-Class: INMAIL",
            "X-Mantis-Project: house",
        ],
    ),
    (
        None,
        &[
            "Subject: plain",
            "Auto-Submitted: no",
            "Auto-Submitted: No; reason=none",
            "Subject: Auto-Submitted: auto-replied",
            "X-Auto-Submitted: no",
            "X-OTRS-Loop: no",
            "X-Vacation: off",
            "X-Mailer: Vacation Planner 3",
            "X-Mailer: Thunderbird",
            "X-Vacations: yes",
            "X-Failed: x@gone.example",
            "X-Cron: yes",
            "Subject: vacation",
            "Content-Type: multipart/mixed; boundary=x; report-type=delivery-status",
            "Content-Type: text/plain; name=\"multipart/report\"",
            "X-List-Id: birds.list.test",
            "Listing: 7",
            "Precedence: first-class",
            "Precedence: bulky",
            "X-Auto-Response-Suppress: DR, NDR, RN, NRN",
            "X-Auto-Response-Suppress: None",
            "X-Looped: no",
            "X-Autoreplying: no",
        ],
    ),
];

#[test]
fn headers_of_machines_forbid_an_answer_and_near_misses_do_not() {
    for (expected, headers) in MACHINE_HEADERS {
        for lines in *headers {
            assert_eq!(header(lines), *expected, "{lines}");
        }
    }
}

/// Local parts behind which nobody reads.
const ROBOTS: &[&str] = &[
    "mailer-daemon",
    "MAILER-DAEMON",
    "postmaster",
    "noreply",
    "no-reply",
    "No_Reply",
    "no.reply",
    "do-not-reply",
    "donotreply",
    "noreply-7f3a",
    "no-reply+tag",
    "calendar-noreply",
    "shop-no-reply",
    "bounce",
    "bounces",
    "bounces+token=x",
    "bounce-99",
    "bounce99",
    "bouncer",
    "birds-bounces",
    "birds-bounces+bob=client.example",
    "owner-birds",
    "birds-owner",
    "birds-request",
    "daemon",
    "autoreply",
    "auto-reply",
    "auto_reply",
    "autoreply+7",
    "autoresponder",
    "auto-responder",
    "vacation",
    "Vacation+bob",
    "mailer_daemon",
    "MAILERDAEMON",
    "listserv",
    "listserv-7",
    "majordomo",
    "root",
    "cron",
    "nobody",
    "dontreply",
    "donot-reply",
    "nicht-antworten",
    "noresponder",
    "no-responder",
    "ne-pas-repondre",
    "nao-responda",
    "non-rispondere",
    "niet-beantwoorden",
    "svara-ej",
    "nie-odpowiadac",
    "no-response",
    "notifications",
    "notification",
    "birds-confirm+7f3a",
    "double-bounce",
    "sympa",
];

/// Local parts that only look like these.
const READERS: &[&str] = &[
    "bob",
    "trampoline.bouncing",
    "noreplyatall",
    "reply",
    "do-reply",
    "owner",
    "homeowner",
    "request",
    "requests",
    "daemonia",
    "postmasters",
    "mailer",
    "ownership-team",
    "noah.reply",
    "vacation.planner",
    "vacations",
    "vacationer",
    "vacation-rentals",
    "root.cause",
    "rooth",
    "roots",
    "cronin",
    "nobody.knows",
    "notifications.team",
    "autor",
    "auto.repair",
    "listservice",
    "majordomus",
    "birds-confirm",
    "sympathy",
];

#[test]
fn senders_behind_which_nobody_reads_are_not_answered() {
    let expect = |local: &str, expected: Option<&str>| {
        let address = format!("{local}@client.example");
        assert_eq!(
            letter(&format!("From: {address}")),
            expected,
            "From: {local}"
        );
        let plain = read("From: bob@client.example");
        assert_eq!(
            rule(Some(&address), &plain),
            expected,
            "MAIL FROM:<{local}>"
        );
    };
    for robot in ROBOTS {
        expect(robot, Some("robot_sender"));
    }
    for person in READERS {
        expect(person, None);
    }
}

#[test]
fn the_envelope_of_a_list_is_a_machine_and_the_same_name_in_from_a_person() {
    let plain = read("From: bob@client.example");
    assert_eq!(
        rule(Some("birds-admin@client.example"), &plain),
        Some("robot_sender")
    );
    let admin = read("From: it-admin@client.example");
    assert_eq!(rule(Some("it-admin@client.example"), &admin), None);
}

/// Judges a subject by what came before in the thread.
fn subject(text: &str, has_our_mail: bool, has_words: bool) -> Option<&'static str> {
    let records = Records {
        conversation: MentionedMail {
            has_our_mail,
            has_words,
        },
        ..Records::default()
    };
    let email = read(&format!("From: Bob <bob@client.example>\nSubject: {text}"));
    judged(Some("bob@client.example"), &email, &records)
}

/// Subjects that only programs begin so.
const ANSWERS: &[&str] = &[
    "Automatic reply: visit",
    "Automatic reply: Re: visit",
    "AUTOMATIC REPLY: visit",
    "Auto Reply: visit",
    "Automated response: Re: visit",
    "Automatische Antwort: Besuch",
    "Abwesenheitsnotiz: Besuch",
    "Réponse automatique : visite",
    "Respuesta automática: visita",
    "Risposta automatica: visita",
    "Resposta automática: visita",
    "Automatisch antwoord: bezoek",
    "Automatiskt svar: besök",
    "Automatisk svar: besøg",
    "Automaattinen vastaus: vierailu",
    "Odpowiedź automatyczna: wizyta",
    "Automatická odpověď: návštěva",
    "Automatikus válasz: látogatás",
    "Răspuns automat: vizită",
    "Автоматический ответ: визит",
    "Αυτόματη απάντηση: επίσκεψη",
    "Otomatik yanıt: ziyaret",
    "自动答复: 访问",
    "自動応答：訪問",
    "자동 회신: 방문",
    "AUTO: Anna Muster is out of the office (returning 30.11.2026)",
    "AUTO: Anna Muster ist außer Haus",
];

/// Subjects that a person may begin so, too.
const NOTICES: &[&str] = &[
    "Out of Office: visit",
    "Out of office",
    "Out of the office until Monday",
    "[Out of office] visit",
    "OOO: visit",
    "Vacation: visit",
    "Away from my mail",
    "Abwesend: Besuch",
    "Im Urlaub bis 7. Dezember",
    "Absence du bureau: visite",
    "Fuera de la oficina: visita",
    "Afwezig: bezoek",
    "Undeliverable: visit",
    "Unzustellbar: Besuch",
    "failure notice",
    "Mail delivery failed: returning message to sender",
    "Undelivered Mail Returned to Sender",
    "Delivery Status Notification (Failure)",
    "Returned mail: see transcript for details",
];

/// Subjects of people.
const PEOPLE: &[&str] = &[
    "visit",
    "Re: Automatic reply: visit",
    "AW: Abwesenheitsnotiz: Besuch",
    "Fwd: Undeliverable: visit",
    "Vacation planner",
    "Vacation planning for 2027",
    "Absence makes the heart grow fonder",
    "Urlaubsplanung",
    "Automatic replies",
    "Automatic reply settings",
    "Out of office hours",
    "The out of office: how do I switch it on",
    "AUTO: which car do we take",
    "Automatik: Antwort gesucht",
    "Undeliverables list",
    "Failure noticed",
    "On leaving",
    "",
];

#[test]
fn a_subject_is_a_sign_only_before_anybody_has_written() {
    let sign = Some("autoreply_subject");
    for text in ANSWERS {
        assert_eq!(
            subject(text, true, false),
            sign,
            "in answer to ours: {text}"
        );
        assert_eq!(subject(text, false, false), sign, "alone: {text}");
        assert_eq!(subject(text, true, true), None, "after words: {text}");
    }
    for text in NOTICES {
        assert_eq!(
            subject(text, true, false),
            sign,
            "in answer to ours: {text}"
        );
        assert_eq!(subject(text, false, false), None, "alone: {text}");
        assert_eq!(subject(text, true, true), None, "after words: {text}");
    }
    for text in PEOPLE {
        for (has_our_mail, has_words) in [(false, false), (true, false), (true, true)] {
            assert_eq!(subject(text, has_our_mail, has_words), None, "{text}");
        }
    }
    // A question about automatic answers is somebody's, unless it repeats the subject of ours.
    let question = "Automatic reply: how do I switch it on?";
    assert_eq!(subject(question, false, false), None);
    assert_eq!(subject(question, true, false), sign);
}

#[test]
fn null_senders_own_personas_malformed_letters_get_no_answer() {
    let plain = read("From: bob@client.example");
    assert_eq!(rule(None, &plain), Some("null_sender"));
    assert_eq!(rule(Some("bob@client.example"), &plain), None);

    assert_eq!(letter("From: ADA@engine.test"), Some("own_persona"));
    assert_eq!(letter("From: ada+x@engine.test"), Some("own_persona"));
    assert_eq!(rule(Some("bob@engine.test"), &plain), Some("own_persona"));
    assert_eq!(letter("From: ada@engine.test.example"), None);

    for malformed in [
        "Subject: no sender",
        "From: bob@client.example, eve@client.example",
        "From: bob@client.example\nFrom: eve@client.example",
        "From: bob",
        "From: <@relay.test:bob@client.example>",
        "From: =?utf-8?q?bob=40client=2Eexample?=",
        "From: b\u{f6}b@client.example",
    ] {
        assert_eq!(letter(malformed), Some("malformed"), "{malformed}");
    }
}

const OURS: &str = "From: bob@engine.test\nMessage-ID: <m@x>";
const THEIRS: &str = "From: bob@client.example\nMessage-ID: <m@x>";

fn own_mail(from: &str, hops: u32, to: &str) -> Option<OwnMail> {
    let recipients = vec!["x@y.test".into(), to.into()];
    Some(OwnMail {
        persona: PersonaId::parse(from).unwrap(),
        hops,
        recipients,
    })
}

fn noted(id: &str, hops: u32) -> Records {
    Records {
        token: Some(LoopToken {
            hops,
            message_id: id.into(),
        }),
        ..Records::default()
    }
}

fn known(mail: Option<OwnMail>) -> Records {
    Records {
        by_id: mail,
        ..Records::default()
    }
}

#[test]
fn our_records_tell_personas_mail_from_forged_and_returned_mail() {
    let returned = Records {
        by_token: own_mail("ada", 1, "bob@client.example"),
        ..noted("o@x", 1)
    };
    let to_herself = "From: ada@engine.test\nMessage-ID: <m@x>";
    #[rustfmt::skip]
    let cases = [
        ("forged", OURS, Records::default(), Origin::Forged),
        ("ours", OURS, known(own_mail("bob", 3, "ada@engine.test")), Origin::Persona { hops: 3 }),
        ("to an alias", OURS, known(own_mail("bob", 1, "Helper+x@engine.test")), Origin::Persona { hops: 1 }),
        ("to somebody else", OURS, known(own_mail("bob", 3, "bob@engine.test")), Origin::Returned),
        ("by another persona", OURS, known(own_mail("ada", 3, "ada@engine.test")), Origin::Returned),
        ("to herself", to_herself, known(own_mail("ada", 1, "ada@engine.test")), Origin::Returned),
        ("a stranger's", THEIRS, Records::default(), Origin::Elsewhere),
        ("with our note", THEIRS, returned, Origin::Returned),
        ("of an engine that shares our key", THEIRS, noted("m@x", 2), Origin::Sealed { hops: 2 }),
        ("with a note on another mail", THEIRS, noted("o@x", 2), Origin::Returned),
    ];
    let envelope = Envelope {
        mail_from: Some(address("relay@client.example")),
        rcpt_to: vec![],
        helo: String::new(),
        peer: None,
        via: Via::Smtp,
        arrival: Arrival::default(),
    };
    let intake = RecordingDoor::new();
    let ada = intake
        .personas
        .by_address(&address("ada@engine.test"))
        .unwrap();
    for (what, header, records, expected) in cases {
        let found = judge::origin(&envelope, &read(header), ada, &intake.personas, &records);
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_marks_of_our_own_mail_hold_it_only_at_the_limit_of_hops() {
    let marks =
        "Auto-Submitted: auto-replied\nX-Auto-Response-Suppress: DR, RN, NRN, OOF, AutoReply";
    let between = |hops, more: &str| {
        let email = read(&format!("{OURS}\n{marks}\n{more}"));
        judged(
            Some("bob@engine.test"),
            &email,
            &known(own_mail("bob", hops, "ada@engine.test")),
        )
    };
    assert_eq!(
        [1, 3, 4, 99].map(|hops| between(hops, "")),
        [None, None, Some("hop_limit"), Some("hop_limit")]
    );
    assert_eq!(between(1, "List-Id: <l.test>"), Some("list"));
    let sealed = |hops| {
        judged(
            Some("bob@client.example"),
            &read(&format!("{THEIRS}\n{marks}")),
            &noted("m@x", hops),
        )
    };
    assert_eq!([1, 3, 4].map(sealed), [None, None, Some("hop_limit")]);
    assert_eq!(
        judged(
            Some("bob@client.example"),
            &read(&format!("{THEIRS}\n{marks}")),
            &Records::default()
        ),
        Some("auto_submitted")
    );
}

#[test]
fn no_bounce_of_the_corpus_is_answered() {
    let Some(folder) = corpus("bounces-sisimai") else {
        return;
    };
    let (mut bounces, mut by_content) = (0, 0);
    let mut only_by_envelope = Vec::new();
    for path in files(&folder, "eml") {
        bounces += 1;
        let bytes = std::fs::read(&path).unwrap();
        // A letter that cannot be parsed is refused at the door, which is no answer either.
        let Ok(email) = parse(&bytes, &ParseLimits::default()) else {
            continue;
        };
        assert!(rule(None, &email).is_some(), "{}", path.display());
        // Once more as if a forwarder had given it a sender of its own.
        match rule(Some("forwarder@relay.example"), &email) {
            Some(_) => by_content += 1,
            None => only_by_envelope.push(path.file_name().unwrap().to_owned()),
        }
    }
    assert!(bounces >= 70, "{bounces} letters");
    assert!(
        by_content * 100 >= bounces * 90,
        "{by_content} of {bounces}; known by the envelope only: {only_by_envelope:?}"
    );
}

fn access(default: Decision, allow: &[&str], deny: &[&str]) -> Access {
    Access {
        mode: Mode::Enforce,
        default_decision: default,
        allow: allow.iter().map(ToString::to_string).collect(),
        deny: deny.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn deny_wins_over_allow_and_allow_over_the_default() {
    use SenderVerdict::{Denied, Welcome};
    let open = access(
        Decision::Allow,
        &[],
        &["*@spam.test", "eve@*", "b?b@x.test"],
    );
    let closed = access(
        Decision::Deny,
        &["*@CLIENT.example", "boss@home.test"],
        &["mallory@client.example"],
    );
    let verdict = |access: &Access, from: Option<&str>, envelope: Option<&str>| {
        judge::access(
            access,
            from.map(address).as_ref(),
            envelope.map(address).as_ref(),
        )
    };
    for (from, envelope, expected) in [
        (Some("a@b.test"), Some("a@b.test"), Welcome),
        (None, None, Welcome),
        (Some("x@SPAM.test"), None, Denied),
        (Some("a@b.test"), Some("x@spam.test"), Denied),
        (Some("Eve@anything.test"), None, Denied),
        (Some("bib@x.test"), None, Denied),
        (Some("bb@x.test"), None, Welcome),
        (Some("bobb@x.test"), None, Welcome),
        (Some("x@notspam.test.example"), None, Welcome),
        (Some("x@spam.test.example"), None, Welcome),
    ] {
        let found = verdict(&open, from, envelope);
        assert_eq!(found, expected, "{from:?} {envelope:?}");
    }
    for (from, envelope, expected) in [
        (
            Some("Bob@client.example"),
            Some("vrp-7@relay.test"),
            Welcome,
        ),
        (Some("boss@home.test"), None, Welcome),
        (Some("mallory@client.example"), None, Denied),
        (
            Some("bob@client.example"),
            Some("Mallory@client.example"),
            Denied,
        ),
        (Some("a@b.test"), Some("bob@client.example"), Denied),
        (None, Some("bob@client.example"), Denied),
        (None, None, Denied),
    ] {
        let found = verdict(&closed, from, envelope);
        assert_eq!(found, expected, "{from:?} {envelope:?}");
    }
    let early = |access: &Access, envelope: Option<&str>| {
        judge::envelope_access(access, envelope.map(address).as_ref())
    };
    assert_eq!(early(&closed, Some("mallory@client.example")), Denied);
    assert_eq!(
        early(&closed, Some("stranger@b.test")),
        Welcome,
        "its From may be allowed"
    );
    assert_eq!(
        (early(&closed, None), early(&open, Some("x@spam.test"))),
        (Welcome, Denied)
    );
}

#[test]
fn a_glob_of_many_stars_does_not_take_for_ever() {
    let hostile = Access {
        mode: Mode::Enforce,
        default_decision: Decision::Allow,
        allow: vec![],
        deny: vec!["*a".repeat(60) + "*@x.test"],
    };
    let sender = address(&format!("{}@y.test", "a".repeat(64)));
    assert_eq!(
        judge::access(&hostile, Some(&sender), None),
        SenderVerdict::Welcome
    );
}

#[test]
fn an_address_reaches_a_persona_or_nobody_here_or_is_not_ours() {
    let personas = RecordingDoor::new().personas;
    let verdict = |text: &str| match judge::recipient(&personas, &address(text)) {
        RecipientVerdict::Persona(id) => id.as_str().to_owned(),
        RecipientVerdict::OutOfService => "out of service".into(),
        RecipientVerdict::Unknown => "unknown".into(),
        RecipientVerdict::NotOurs => "not ours".into(),
    };
    for (text, expected) in [
        ("ada@engine.test", "ada"),
        ("ADA@ENGINE.test", "ada"),
        ("ada+tag@engine.test", "ada"),
        ("Helper+a+b@engine.test", "ada"),
        ("bob@engine.test", "bob"),
        ("adam@engine.test", "unknown"),
        ("ada-tag@engine.test", "unknown"),
        ("+ada@engine.test", "unknown"),
        ("ada@sub.engine.test", "not ours"),
        ("ada@other.test", "not ours"),
    ] {
        assert_eq!(verdict(text), expected, "{text}");
    }
}
