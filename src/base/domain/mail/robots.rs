//! Names and subjects by which mail of machines is known that has no mark of RFC 3834.

/// Local parts whose mail is read by no person. The name stands at the start, followed by the end, a separator or a digit:
/// `daemon+token`, `no-reply-7f3a`, `noreply.news`.
const NAMES: &[&str] = &[
    "mailer-daemon",
    "mailer_daemon",
    "mailer.daemon",
    "mailerdaemon",
    "postmaster",
    "daemon",
    "noreply",
    "no-reply",
    "no_reply",
    "no.reply",
    "donotreply",
    "do-not-reply",
    "do_not_reply",
    "do.not.reply",
    "donot-reply",
    "do-notreply",
    "dontreply",
    "dont-reply",
    "dont_reply",
    "noresponse",
    "no-response",
    "no_response",
    "noresponder",
    "no-responder",
    "no_responder",
    "naoresponda",
    "nao-responda",
    "nao_responda",
    "naoresponder",
    "nepasrepondre",
    "ne-pas-repondre",
    "ne_pas_repondre",
    "nicht-antworten",
    "nichtantworten",
    "nicht_antworten",
    "keine-antwort",
    "keineantwort",
    "nonrispondere",
    "non-rispondere",
    "niet-beantwoorden",
    "nietbeantwoorden",
    "svara-ej",
    "svarainte",
    "svar-ikke",
    "nieodpowiadac",
    "nie-odpowiadac",
    "neodpovidat",
    "autoreply",
    "auto-reply",
    "auto_reply",
    "auto.reply",
    "autoresponder",
    "auto-responder",
    "auto_responder",
    "autorespond",
    "autoantwort",
    "auto-antwort",
    "listserv",
    "majordomo",
    "mdaemon",
];

/// Local parts of machines that are also the beginning of people's: the name is all of it, or a tag follows.
const WHOLE_NAMES: &[&str] = &[
    "vacation",
    "root",
    "cron",
    "nobody",
    "notifications",
    "notification",
    "sympa",
    "ezmlm",
    "double-bounce",
    "www-data",
];

/// Reports whether a local part is one whose mail is read by no person.
pub fn is_robot(local: &str) -> bool {
    let local = local.trim_matches('"').to_ascii_lowercase();
    let ends_word = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphabetic());
    let starts_with_name = |name: &&str| local.strip_prefix(*name).is_some_and(ends_word);
    let is_name = |name: &&str| {
        let rest = local.strip_prefix(*name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
    };
    NAMES.iter().any(starts_with_name)
        || WHOLE_NAMES.iter().any(is_name)
        || local.ends_with("-noreply")
        || local.ends_with("-no-reply")
        || local.ends_with("-request")
        || local.ends_with("-owner")
        || local.starts_with("owner-")
        || local.contains("-bounces")
        || local.contains("-confirm+")
        || local.starts_with("bounce")
}

/// What a subject says of its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectMark {
    /// It begins as programs begin the subjects of automatic answers.
    Answer,
    /// It may be a person's, too: `Out of office: who takes over?`, `Undeliverable: parcel 7`.
    Notice,
}

/// Beginnings of subjects of automatic answers up to their colon: Outlook and Exchange in their languages, and others.
const ANSWERS: &[&str] = &[
    "automatic reply",
    "auto reply",
    "auto-reply",
    "autoreply",
    "automated reply",
    "automated response",
    "automatic response",
    "auto response",
    "auto-response",
    "autoresponse",
    "automatische antwort",
    "automatische antwoord",
    "automatisch antwoord",
    "autom. antwort",
    "abwesenheitsnotiz",
    "réponse automatique",
    "reponse automatique",
    "respuesta automática",
    "respuesta automatica",
    "risposta automatica",
    "resposta automática",
    "resposta automatica",
    "automatiskt svar",
    "autosvar",
    "automatisk svar",
    "automaattinen vastaus",
    "automatyczna odpowiedź",
    "odpowiedź automatyczna",
    "automatická odpověď",
    "automatická odpoveď",
    "automatikus válasz",
    "răspuns automat",
    "raspuns automat",
    "автоматический ответ",
    "автоматична відповідь",
    "автоматичен отговор",
    "αυτόματη απάντηση",
    "otomatik yanıt",
    "automatski odgovor",
    "samodejni odgovor",
    "automaatvastus",
    "automātiskā atbilde",
    "automatinis atsakymas",
    "resposta automàtica",
    "自动答复",
    "自动回复",
    "自動回覆",
    "自動回復",
    "自動応答",
    "自動返信",
    "자동 회신",
    "자동 응답",
    "תשובה אוטומטית",
    "رد تلقائي",
    "trả lời tự động",
    "balasan otomatis",
];

/// Beginnings of subjects up to a colon, a bracket or the end, that count in an answer to a mail of ours only.
const NOTICES: &[&str] = &[
    "out of office",
    "out-of-office",
    "out of the office",
    "ooo",
    "away from my mail",
    "away from the office",
    "on vacation",
    "vacation",
    "vacation notice",
    "on holiday",
    "on leave",
    "annual leave",
    "maternity leave",
    "i am away",
    "i am out of the office",
    "abwesend",
    "abwesenheit",
    "bin abwesend",
    "nicht im büro",
    "im urlaub",
    "urlaub",
    "absence",
    "absent",
    "absence du bureau",
    "absent du bureau",
    "en congé",
    "fuera de la oficina",
    "ausente",
    "de vacaciones",
    "fuori ufficio",
    "assente",
    "fora do escritório",
    "afwezig",
    "afwezigheid",
    "niet op kantoor",
    "frånvaro",
    "frånvarande",
    "ikke på kontoret",
    "fravær",
    "poissa",
    "poza biurem",
    "nieobecność",
    "mimo kancelář",
    "нет на месте",
    "отпуск",
    "不在",
    "外出中",
    "休假",
    "undeliverable",
    "undelivered mail returned to sender",
    "undelivered",
    "mail delivery failed",
    "mail delivery failure",
    "mail delivery system",
    "delivery status notification",
    "delivery failure",
    "delivery failed",
    "failure notice",
    "returned mail",
    "message not delivered",
    "mail could not be delivered",
    "unzustellbar",
    "nicht zustellbar",
    "non remis",
    "no se puede entregar",
    "no entregable",
    "non recapitabile",
    "onbestelbaar",
    "nie można dostarczyć",
    "не доставлено",
    "недоставленное сообщение",
    "配信不能",
    "无法送达",
    "ticket created",
    "ticket received",
    "request received",
];

/// Words that follow such a beginning without a sign between.
const UNTIL: &[&str] = &[
    "until ",
    "till ",
    "from ",
    "bis ",
    "vom ",
    "ab ",
    "jusqu",
    "du ",
    "hasta ",
    "fino ",
    "dal ",
    "até ",
    "tot ",
    "till och med ",
];

/// Finds the mark of a subject, at its very beginning: who answers or forwards has a prefix before it.
pub fn subject(subject: &str) -> Option<SubjectMark> {
    let lower = subject.trim_start().to_lowercase();
    let lower = lower.trim_start_matches('[').trim_start();
    // Notes: `AUTO: Anna Muster is out of the office (returning 30.11.2026)`.
    let is_notes = lower.strip_prefix("auto:").is_some_and(|rest| {
        [
            "out of the office",
            "außer haus",
            "ist abwesend",
            "nicht im büro",
            "absent",
            "fuori ufficio",
        ]
        .iter()
        .any(|words| rest.contains(words))
    });
    let begins = |start: &&str, ends: &[char]| {
        let rest = lower.strip_prefix(*start).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(ends))
    };
    if is_notes || ANSWERS.iter().any(|start| begins(start, &[':', '：'])) {
        return Some(SubjectMark::Answer);
    }
    let ends = [':', '：', ']', '(', '-', '–', '—', '!', '.', '/'];
    let is_notice = |start: &&str| {
        let rest = lower.strip_prefix(*start);
        let is_until = rest.is_some_and(|rest| {
            UNTIL.iter().any(|word| {
                rest.strip_prefix(' ')
                    .is_some_and(|rest| rest.starts_with(word))
            })
        });
        is_until || begins(start, &ends) || lower.trim_end() == *start
    };
    let mut known = ANSWERS.iter().chain(NOTICES);
    known.any(is_notice).then_some(SubjectMark::Notice)
}
