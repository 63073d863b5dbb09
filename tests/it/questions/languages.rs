//! What people write in twenty languages: a yes, a no, a reason, and how their mail programs introduce a quote. Chosen without
//! a look at the table of the engine.

pub struct Language {
    pub name: &'static str,
    pub yes: [&'static str; 2],
    pub no: [&'static str; 2],
    pub reason: &'static str,
    /// As Gmail writes it; `ADDRESS` is the address.
    pub attribution: &'static str,
}

const fn language(
    name: &'static str,
    yes: [&'static str; 2],
    no: [&'static str; 2],
    reason: &'static str,
    attribution: &'static str,
) -> Language {
    Language {
        name,
        yes,
        no,
        reason,
        attribution,
    }
}

#[rustfmt::skip]
pub static LANGUAGES: [Language; 20] = [
    language("en", ["Yes", "OK"], ["No", "Don't send"], "Eve has left", "On Mon, Nov 23, 2026 at 10:15 AM Ada <ADDRESS> wrote:"),
    language("de", ["Ja", "Genehmigt"], ["Nein", "Nicht senden"], "Eve ist nicht mehr da", "Am Mo., 23. Nov. 2026 um 10:15 Uhr schrieb Ada <ADDRESS>:"),
    language("fr", ["Oui", "D’accord"], ["Non", "Refusé"], "Eve est partie", "Le lun. 23 nov. 2026 à 10:15, Ada <ADDRESS> a écrit :"),
    language("es", ["Sí", "De acuerdo"], ["No", "Rechazado"], "Eve se ha ido", "El lun, 23 nov 2026 a las 10:15, Ada (<ADDRESS>) escribió:"),
    language("it", ["Sì", "Va bene"], ["No", "Rifiutato"], "Eve non lavora più qui", "Il giorno lun 23 nov 2026 alle ore 10:15 Ada <ADDRESS> ha scritto:"),
    language("pt", ["Sim", "Aprovado"], ["Não", "Recusar"], "a Eve saiu", "Em seg., 23 de nov. de 2026 às 10:15, Ada <ADDRESS> escreveu:"),
    language("nl", ["Ja", "Akkoord"], ["Nee", "Afgewezen"], "Eve is weg", "Op ma 23 nov 2026 om 10:15 schreef Ada <ADDRESS>:"),
    language("sv", ["Ja", "Godkänn"], ["Nej", "Avslå"], "Eve har slutat", "Den mån 23 nov. 2026 kl 10:15 skrev Ada <ADDRESS>:"),
    language("da", ["Ja", "Godkendt"], ["Nej", "Afvist"], "Eve er rejst", "Den man. 23. nov. 2026 kl. 10.15 skrev Ada <ADDRESS>:"),
    language("fi", ["Kyllä", "Hyväksytty"], ["Ei", "Hylätty"], "Eve on lähtenyt", "ma 23. marrask. 2026 klo 10.15 Ada (ADDRESS) kirjoitti:"),
    language("pl", ["Tak", "Zgoda"], ["Nie", "Odrzuć"], "Ewa odeszła", "pon., 23 lis 2026 o 10:15 Ada <ADDRESS> napisał(a):"),
    language("cs", ["Ano", "Schvaluji"], ["Ne", "Zamítám"], "Eva odešla", "po 23. 11. 2026 v 10:15 odesílatel Ada <ADDRESS> napsal:"),
    language("hu", ["Igen", "Rendben"], ["Nem", "Elutasítom"], "Éva elment", "Ada <ADDRESS> ezt írta (időpont: 2026. nov. 23., H, 10:15):"),
    language("ro", ["Da", "De acord"], ["Nu", "Refuz"], "Eva a plecat", "În lun., 23 nov. 2026 la 10:15, Ada <ADDRESS> a scris:"),
    language("el", ["Ναι", "Εντάξει"], ["Όχι", "Απορρίπτω"], "η Εύα έφυγε", "Στις Δευ 23 Νοε 2026 στις 10:15 π.μ., ο/η Ada <ADDRESS> έγραψε:"),
    language("ru", ["Да", "Согласна"], ["Нет", "Отклоняю"], "Ева уволилась", "пн, 23 нояб. 2026 г. в 10:15, Ada <ADDRESS>:"),
    language("tr", ["Evet", "Onaylıyorum"], ["Hayır", "Reddet"], "Eve ayrıldı", "Ada <ADDRESS>, 23 Kas 2026 Pzt, 10:15 tarihinde şunu yazdı:"),
    language("ja", ["はい", "承認します"], ["いいえ", "却下"], "イブは退職しました", "2026年11月23日(月) 10:15 Ada <ADDRESS>:"),
    language("zh", ["是", "同意"], ["不", "拒绝"], "伊芙已经离职", "Ada <ADDRESS> 于2026年11月23日周一 10:15写道："),
    language("ar", ["نعم", "موافق"], ["لا", "أرفض"], "لقد غادرت", "في الاثنين، 23 نوفمبر 2026 10:15 ص Ada <ADDRESS> كتب:"),
];

/// What programs say in place of somebody who is away, in thirty languages.
#[rustfmt::skip]
pub static AWAY: [&str; 30] = [
    "Yes, I am away until Monday.", "OK, thank you for your mail. I am out of the office.", "Ja, ich bin bis Montag nicht im Büro.",
    "Merci, je suis absent jusqu’à lundi.", "Sí, estoy fuera de la oficina.", "Sì, sono fuori sede fino a lunedì.", "Sim, estou ausente até segunda.",
    "Ja, ik ben afwezig tot maandag.", "Ja tack, jag är på semester.", "Ja tak, jeg er på ferie.", "Ja takk, jeg er på ferie.", "Kyllä, olen lomalla.",
    "Tak, jestem na urlopie.", "Ano, jsem na dovolené.", "Igen, szabadságon vagyok.", "Da, sunt în concediu.", "Ναι, λείπω σε άδεια.",
    "Да, я в отпуске.", "Так, я у відпустці.", "Evet, izindeyim.", "はい、休暇中です。", "是，我正在休假。", "네, 휴가 중입니다.", "نعم، أنا في إجازة.",
    "כן, אני בחופשה.", "हाँ, मैं छुट्टी पर हूँ।", "Да, на отпуска съм.", "Da, na odmoru sam.", "Áno, som na dovolenke.", "Vâng, tôi đang nghỉ phép.",
];
