//! Words that occur in letters on any subject, in English and German. A table of our own.

use std::collections::BTreeSet;
use std::sync::LazyLock;

static STOP_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| WORDS.split(' ').collect());

/// Reports whether a word, in lower case, says nothing about the subject of a letter.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

const WORDS: &str = "\
    about after again all also and any are ask asked because been before being best but can could dear \
    did does doing don each for from fwd get give good greetings had has have having hello her here him \
    his how however into isn its just kind know let like look may might more most much must need not now \
    off one only other our out over own please question regards same she should some such sincerely tell \
    than thank thanks that the their them then there these they thing this those through too very want \
    was way well were what when where which while who whom why will wish with would yes yet you your \
    yours aber alle als auch auf aus bei bin bis bitte dann das dass dem den der des die dies diese doch \
    dort ein eine einem einen einer eines etwas frau freundlichen für grüße grüßen haben hallo hat herr \
    ich ihr ihre ihnen ist kann kein keine können liebe lieber man mehr mein meine mit möchte nach nicht \
    noch nur oder ohne schon sehr sein sich sie sind und uns unser viele vom von vor war was wegen wenn \
    wer werden wie wir wird wo wurde zum zur über";
