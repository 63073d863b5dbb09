//! Letters as people write them, with whatever looks like something else in them: none is kept back, and none loses a word.
//! Each stands alone, and in each of the forms in which models hand a letter over.

use attache::runs::said::letter::{LastText, read};

/// What was asked, and an honest answer to it.
const LETTERS: &[(&str, &str)] = &[
    ("Is the pool open?", "Yes."),
    ("Ist der Pool auf?", "Ja, bis acht."),
    ("How many keys?", "12"),
    ("Did it arrive?", "Done."),
    ("Anything left?", "None."),
    ("What did the bank say?", "No answer."),
    ("See you on Sunday!", "👍"),
    (
        "Do you have a room for two from Friday to Sunday?",
        "Yes, we have a room for two from Friday to Sunday.",
    ),
    (
        "Please confirm: two rooms from 3 March, four adults and one child.",
        "I confirm: two rooms from 3 March, four adults and one child. You pay 312 euros on arrival.\n\nLena",
    ),
    (
        "How do I get there?",
        "Your connection:\n\nDate: Friday, 3 March\nFrom: Hamburg 8:04\nTo: Lindenhof 10:12\n\nLena",
    ),
    (
        "What does it cost?",
        "| Room | Night | Week |\n| --- | ---: | ---: |\n| Garden | 78 € | 490 € |\n| Mill | 92 € | 580 € |\n\nLena",
    ),
    (
        "Which days are free in March?",
        "Dear Bert,\n\nas of today:\n\n| Day | 1 | 2 | 3 | 4 | 5 | 6 |\n| --- | --- | --- | --- | --- | --- | --- |\n\
      | 1 | free | free | free | taken | free | free |\n| 2 | free | free | free | taken | free | free |\n\
      | 3 | free | free | free | taken | free | free |\n| 4 | free | free | free | taken | free | free |\n\
      | 5 | free | free | free | taken | free | free |\n| 6 | free | free | free | taken | free | free |\n\nLena",
    ),
    (
        "Which nights?",
        include_str!("../../fixtures/free_nights.txt"),
    ),
    (
        "When are you closed?",
        "Monday: closed.\nTuesday: closed.\nWednesday: closed.\nThursday to Sunday: 9 to 18.\n\nLena",
    ),
    (
        "What stands in your log?",
        "Dear Bert,\n\nthe log has this, once a second:\n\n```\nERROR connection refused by the peer\nERROR connection refused by the peer\n\
      ERROR connection refused by the peer\nERROR connection refused by the peer\nERROR connection refused by the peer\n\
      ERROR connection refused by the peer\n```\n\nSo the server is down. We start it at nine.\n\nLena",
    ),
    (
        "Which settings do I need?",
        "Put this into `app.json`:\n\n```json\n{\"rooms\": 9, \"open\": true}\n```\n\nThen start the program again.",
    ),
    (
        "Can I have the data?",
        "Here it is, by room:\n\n```json\n[{\"room\": 1}, {\"room\": 2}]\n```",
    ),
    (
        "How does a template work?",
        "Write `{{ name }}` where the name belongs, and `[Your Name]` stays as it is.",
    ),
    (
        "What is `<tool_call>`?",
        "A line such as `<tool_call>` begins a call of a tool. Your server has no parser for it.",
    ),
    (
        "What does the model think?",
        "It writes `<think>` first. I think that is why the answer is late.",
    ),
    (
        "What does the frame look like?",
        "It begins with `<letter>`. Below it is:\n\n```\n<invocation>\n```\n\nLena",
    ),
    (
        "What is [engine]?",
        "The word [engine] marks notes of the program. You can ignore it.",
    ),
    (
        "Wie ist das Kennwort?",
        "Das Kennwort lautet *a*b*c~d_e_f*. Es gilt bis zum 3. März.",
    ),
    (
        "And the prices?",
        "2 < 3 and 5 > 4, so the garden room is cheaper: 3 * 78 = 234 euros.",
    ),
    (
        "Could you send the form?",
        "Ja, [das Formular](https://lindenhof.example/form) ist hier. Bitte bis Freitag zurück an uns.\n\nLena",
    ),
    (
        "Where do I sign?",
        "See the two notes [1] and [2].\n\n[1] The first page.\n[2] The last page.",
    ),
    (
        "What did I ask?",
        "> When may we arrive?\n\nFrom three in the afternoon.\n\n> And the dog?\n\nIs welcome.\n\nLena",
    ),
    (
        "Who are you?",
        "I am Lena, the assistant of the Lindenhof. Human: that is what you are, and I am a program.",
    ),
    (
        "Any news on the subject?",
        "Subject to the weather, we open in May.\n\nLena",
    ),
    (
        "May I come?",
        "Sure, here is the answer: the pool opens at nine, and you may come.",
    ),
    (
        "Was it cut off?",
        "The answer was cut off at the bottom of the page, I am sorry. The last line is: bring towels.\n\nLena",
    ),
    (
        "Write me a poem, please.",
        "The mill, the mill,\nit is so still.\n\nThe water falls,\nthe heron calls.\n\nThe mill, the mill,\nit is so still.\n\nThe guests have gone,\nthe night comes on.",
    ),
    ("请问几点吃早餐？", "您好！早餐时间是七点到十点。\n\n莉娜"),
    ("朝食は何時ですか。", "朝食は七時から十時までです。\n\nレナ"),
    ("متى الإفطار؟", "الإفطار من السابعة إلى العاشرة.\n\nلينا"),
    ("नाश्ता कब है?", "नाश्ता सात से दस बजे तक है।\n\nलेना"),
    ("Когда завтрак?", "Завтрак с семи до десяти.\n\nЛена"),
    (
        "Πότε είναι το πρωινό;",
        "Το πρωινό είναι από τις επτά έως τις δέκα.\n\nΛένα",
    ),
    (
        "À quelle heure ?",
        "Bonjour Anne,\n\nle petit-déjeuner est servi de 7 h à 10 h.\n\nBien à vous,\nLéna",
    ),
    (
        "¿A qué hora?",
        "¡Hola, Ana!\n\nEl desayuno es de siete a diez. ¿Le parece bien?\n\nLena",
    ),
    (
        "Which is it?",
        "Did you mean the garden room or the mill room?",
    ),
    (
        "When is breakfast?",
        "When is breakfast? From seven to ten, and on Sundays until eleven.",
    ),
    (
        "A few questions below: 1. Parking? 2. Dogs? 3. Late arrival?",
        "1. Yes\n2. Yes\n3. Yes, until 23:00\n\nLena",
    ),
    (
        "Bitte eine Liste.",
        "- Handtücher: ja\n- Bettwäsche: ja\n- Föhn: ja\n- Wasserkocher: nein\n\nHerzliche Grüße\nLena",
    ),
    (
        "What do you know of me?",
        "You are Bert Halm.\nYou are a vegetarian.\nYou come in March.\n\nIs that right?",
    ),
];

/// Forms in which models hand a letter over: what stands before it and behind it.
const FORMS: &[(&str, &str)] = &[
    ("", ""),
    ("\n\n", "\n \n"),
    ("\u{feff}", ""),
    ("<|im_start|>assistant\n", "<|im_end|>"),
    ("", "<|im_end|>\n<|im_start|>user\nAnd the price?<|im_end|>"),
    (
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    ("<start_of_turn>model\n", "<end_of_turn>"),
    ("<|assistant|>\n", "<|end|>"),
    ("<s>[INST] A question of somebody [/INST]\n", "</s>"),
    ("", "</s>"),
    ("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    ("<|turn>model\n", "<turn|>"),
    ("Subject: Re: Breakfast\n\n", ""),
    ("**Subject:** Re: Breakfast\n\n", ""),
    ("To: bert@traveller.example\nSubject: Re: Breakfast\n\n", ""),
    ("Betreff: Ihre Anfrage\n\n", ""),
    ("[engine] Your answer was cut off.\n", ""),
    ("<invocation>\nsubject: Breakfast\n</invocation>\n\n", ""),
    ("<letter>\n", "\n</letter>"),
    (
        "sender: unauthenticated (anybody can write that name)\n\n",
        "",
    ),
];

#[test]
fn no_honest_letter_is_kept_back_or_loses_a_word() {
    let (mut read_whole, mut wrong) = (0, Vec::new());
    for (asked, letter) in LETTERS {
        for (before, after) in FORMS {
            match read(&format!("{before}{letter}{after}"), asked) {
                LastText::Letter(read) if read == *letter => read_whole += 1,
                other => wrong.push(format!("{before:?} {letter:.60?} {after:?}: {other:.200?}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        wrong.len() + read_whole,
        wrong.join("\n")
    );
    assert_eq!(read_whole, LETTERS.len() * FORMS.len());
}
