//! Bounds imap-proto's recursion: its parser of `BODYSTRUCTURE`, which is never requested, recurses
//! once per parenthesis, and a server that sends a hundred thousand of them would crash the
//! process.
//!
//! Delete this when imap-proto bounds its depth (0.17 does not).

/// Maximum parentheses that one `FETCH` response may open outside literals. Our requests lead to
/// two.
const OPENED_MAX: usize = 30;

/// Reports whether the first response in a buffer can be given to the parser. Only `FETCH` can
/// nest.
///
/// A literal is skipped only where the parser cannot take its head for anything else: after a blank
/// and in no parenthesis but that of the response itself. Elsewhere a literal's head is counted
/// like other bytes, because the parser drops unknown attributes up to the next `)`, including line
/// ends and heads of literals.
pub(super) fn is_bounded(buffer: &[u8]) -> bool {
    let Some(start) = fetched_from(buffer) else {
        return true;
    };
    let (mut at, mut opened, mut is_inside) = (start, 0, false);
    while let Some(byte) = buffer.get(at) {
        match byte {
            b'(' => {
                opened += 1;
                is_inside = at > start;
                if opened > OPENED_MAX {
                    return false;
                }
            }
            b')' => is_inside = false,
            b'{' if !is_inside && buffer[at - 1] == b' ' => {
                at += literal_bytes(&buffer[at..]).unwrap_or(0);
            }
            b'\n' if !is_inside && buffer[..at].ends_with(b")\r") => return true,
            _ => {}
        }
        at = at.saturating_add(1);
    }
    true
}

/// Offset of the parenthesis in `* 12 FETCH (`.
fn fetched_from(buffer: &[u8]) -> Option<usize> {
    let number = buffer.strip_prefix(b"* ")?;
    let digits = number
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let verb = number.get(digits..digits + 7)?;
    (digits > 0 && verb.eq_ignore_ascii_case(b" FETCH ")).then_some(2 + digits + 7)
}

/// Bytes of `{12}`, its line end and the literal, minus one.
fn literal_bytes(bytes: &[u8]) -> Option<usize> {
    let digits = bytes[1..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let announced: u32 = std::str::from_utf8(&bytes[1..=digits]).ok()?.parse().ok()?;
    let head = bytes.get(digits + 1..digits + 4)?;
    (head == b"}\r\n").then(|| (announced as usize).saturating_add(digits + 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use imap_proto::Response;

    /// As the connection does: unbounded responses are not parsed.
    fn parses(bytes: &[u8]) -> Option<bool> {
        is_bounded(bytes).then(|| Response::parse(bytes).is_ok())
    }

    #[test]
    fn what_servers_say_is_bounded_whatever_letters_hold() {
        let smileys = ":-( ".repeat(5000);
        let letter = format!(
            "* 7 FETCH (UID 9 FLAGS (\\Seen) BODY[] {{{}}}\r\n{smileys})\r\n",
            smileys.len()
        );
        let many = "* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n".repeat(1000);
        for good in [
            letter.as_str(),
            &many,
            &letter.repeat(3),
            "* 1 fetch (UID 1)\r\n",
        ] {
            assert_eq!(parses(good.as_bytes()), Some(true), "{}", &good[..40]);
        }
        for other in [
            "* OK ((((\r\n",
            "* SEARCH 1\r\n",
            "* 1 FETCH",
            "* FETCH (",
            "A1 OK {5}\r\n",
            "",
        ] {
            assert!(is_bounded(other.as_bytes()), "{other}");
        }
        let allowed = format!("* 1 FETCH (BODYSTRUCTURE {}", "(".repeat(OPENED_MAX - 1));
        assert_eq!(
            parses(allowed.as_bytes()),
            Some(false),
            "deep, and no crash"
        );
    }

    #[test]
    fn no_disguise_brings_a_thousand_parentheses_to_the_parser() {
        let deep = "(".repeat(100_000);
        for front in [
            "BODYSTRUCTURE ",
            "UID 1 BODYSTRUCTURE ",
            "X (\") BODYSTRUCTURE ",
            "X \")\" Y ({999999}\r\n) BODYSTRUCTURE ",
            "X (a {999999}\r\n) BODYSTRUCTURE ",
            "X (a\r\n) BODYSTRUCTURE ",
            "X (a)\r\n BODYSTRUCTURE ",
            "X a{999999}\r\n BODYSTRUCTURE ",
            "X a\r\n BODYSTRUCTURE ",
            "X {99999999999}\r\n BODYSTRUCTURE ",
            "X {3}\r\nabc BODYSTRUCTURE ",
            "BODYSTRUCTURE ((\"text\" \"plain\" (\")\" \"))))\") NIL NIL \"7bit\" 1 1)",
            "BODY[] {0}\r\n BODYSTRUCTURE ",
        ] {
            let bytes = format!("* 1 FETCH ({front}{deep}");
            // Either it is refused, or the parser stops before that point.
            let parsed = parses(bytes.as_bytes());
            assert!(matches!(parsed, None | Some(false)), "{front}");
        }
    }
}
