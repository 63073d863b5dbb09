//! A stand-in for the intake: judges like the real one, keeps what it is given in memory, fails when told to.

use attache::config::{Access, Decision, Mode, OutOfService, Persona, Personas};
use attache::domain::ReplyMode;
use attache::domain::{Address, Letter, MessageId, PersonaId, RunId};
use attache::gateway::intake_contract::{
    Accepted, Copy, CopyOutcome, LetterIntake, RecipientVerdict, Refusal, SenderVerdict, Shortage,
};
use attache::gateway::judge;
use attache::store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

pub struct RecordingDoor {
    pub personas: Personas,
    pub access: Access,
    pub room: AtomicBool,
    /// The word of a refusal, see [`refusal`]; empty: letters are taken.
    pub refuses: Mutex<String>,
    pub letters: Mutex<Vec<Letter>>,
    pub confirmed: AtomicUsize,
    /// For want of what somebody was refused, each time.
    pub shortages: Mutex<Vec<Shortage>>,
    /// Happens once, while a letter is being stored.
    pub meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

pub fn persona(id: &str, addresses: &[&str]) -> Persona {
    let mut addresses = addresses.iter().map(|a| Address::parse(a).unwrap());
    Persona {
        id: PersonaId::parse(id).unwrap(),
        name: id.to_owned(),
        address: addresses.next().unwrap(),
        aliases: addresses.collect(),
        reply: ReplyMode::Final,
        mail: attache::config::PersonaMail::default(),
        letters: attache::config::LetterRules::default(),
        provider: None,
        model: None,
        fallback: None,
        settings: attache::domain::RunSettings::default(),
        tools: attache::config::PersonaTools::default(),
        timezone: chrono_tz::UTC,
        budget: attache::config::PersonaBudget::default(),
        plan: attache::domain::PlanMode::None,
        pdf_files: attache::domain::PdfFiles::Scans,
        shell: false,
        skills: Vec::new(),
        rules: Vec::new(),
        folder: "/nowhere".into(),
    }
}

impl RecordingDoor {
    pub fn new() -> Self {
        let personas = vec![
            persona(
                "ada",
                &[
                    "ada@engine.test",
                    "helper@engine.test",
                    "postmaster@engine.test",
                ],
            ),
            persona("bob", &["bob@engine.test"]),
        ];
        let carl = OutOfService {
            name: "carl".to_owned(),
            problems: Vec::new(),
            addresses: vec![Address::parse("carl@engine.test").unwrap()],
            is_known: true,
        };
        Self {
            personas: Personas::new(personas)
                .unwrap()
                .without(vec![carl], "engine.test"),
            access: Access {
                mode: Mode::Enforce,
                default_decision: Decision::Allow,
                allow: vec![],
                deny: vec!["*@spam.test".into()],
            },
            room: AtomicBool::new(true),
            refuses: Mutex::default(),
            letters: Mutex::default(),
            confirmed: AtomicUsize::new(0),
            shortages: Mutex::default(),
            meanwhile: Mutex::default(),
        }
    }

    pub fn stored(&self) -> usize {
        self.letters.lock().unwrap().len()
    }
}

fn refusal(word: &str) -> Option<Refusal> {
    Some(match word {
        "" => return None,
        "too-large" => Refusal::TooLarge { max_bytes: 7 },
        "hostile" => Refusal::Hostile("secret detail"),
        "denied" => Refusal::Denied,
        "nobody" => Refusal::NobodyAddressed,
        "not-stored" => Refusal::NotStored(StoreError::Closed),
        other => panic!("no refusal `{other}`"),
    })
}

impl LetterIntake for RecordingDoor {
    fn recipient(&self, address: &Address) -> RecipientVerdict {
        judge::recipient(&self.personas, address)
    }

    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict {
        judge::envelope_access(&self.access, mail_from)
    }

    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>> {
        async move {
            if let Some(happen) = self.meanwhile.lock().unwrap().take() {
                happen();
            }
            if let Some(refusal) = refusal(&self.refuses.lock().unwrap()) {
                return Err(refusal);
            }
            let mut letters = self.letters.lock().unwrap();
            let known = letters.iter().any(|known| known.bytes == letter.bytes);
            let outcome = if known {
                CopyOutcome::Duplicate
            } else {
                CopyOutcome::Run(RunId::new("secret-run-id"))
            };
            let persona = PersonaId::parse("ada").unwrap();
            letters.push(letter);
            let copies = vec![Copy {
                persona,
                message: MessageId::new("secret-message-id"),
                outcome,
            }];
            Ok(Accepted {
                sender: None,
                copies,
                needs_confirmation: true,
            })
        }
        .boxed()
    }

    fn confirm<'a>(&'a self, _accepted: &'a Accepted) -> BoxFuture<'a, ()> {
        async { self.confirmed.fetch_add(1, SeqCst) }
            .map(|_| ())
            .boxed()
    }

    fn has_room(&self) -> bool {
        self.room.load(SeqCst)
    }

    fn short_of(&self, what: Shortage) {
        self.shortages.lock().unwrap().push(what);
    }
}
