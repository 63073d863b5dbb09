//! Bodies as mail programs write them, with their header lines.

use super::dice::Dice;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The header lines about a body, each with its line end, and the body.
pub struct Content {
    pub more: String,
    pub body: String,
}

impl Content {
    pub fn plain(text: &str) -> Self {
        Self::of("plain", text, "8bit")
    }

    pub fn html(text: &str) -> Self {
        Self::of("html", text, "8bit")
    }

    pub fn of(kind: &str, text: &str, encoding: &str) -> Self {
        Self {
            more: format!(
                "MIME-Version: 1.0\r\nContent-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n"
            ),
            body: encoded(text, encoding),
        }
    }

    pub fn multipart(kind: &str, parts: &[Self]) -> Self {
        let part = |part: &Self| format!("--=_edge\r\n{}\r\n{}\r\n", part.more, part.body);
        let parts: String = parts.iter().map(part).collect();
        Self {
            more: format!(
                "MIME-Version: 1.0\r\nContent-Type: multipart/{kind}; boundary=\"=_edge\"\r\n"
            ),
            body: format!("{parts}--=_edge--\r\n"),
        }
    }

    /// A letter whose sender nobody proves.
    pub fn letter(&self, subject: &str) -> Vec<u8> {
        let Self { more, body } = self;
        format!("From: Olga <olga@home.test>\r\nTo: ada@engine.test\r\nSubject: {subject}\r\n{more}\r\n{body}\r\n")
            .into_bytes()
    }
}

fn encoded(text: &str, encoding: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    match encoding {
        "base64" => {
            let whole = STANDARD.encode(text);
            let lines: Vec<&str> = (0..whole.len())
                .step_by(76)
                .map(|at| &whole[at..whole.len().min(at + 76)])
                .collect();
            lines.join("\r\n")
        }
        "quoted-printable" => text
            .split("\r\n")
            .map(quoted_printable)
            .collect::<Vec<_>>()
            .join("\r\n"),
        _ => text,
    }
}

fn quoted_printable(line: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for byte in line.bytes() {
        let one = match byte {
            b'=' | b'\t' | 127.. => format!("={byte:02X}"),
            byte => char::from(byte).to_string(),
        };
        if width + one.len() > 72 {
            out.push_str("=\r\n");
            width = 0;
        }
        width += one.len();
        out.push_str(&one);
    }
    match out.strip_suffix(' ') {
        Some(before) => format!("{before}=20"),
        None => out,
    }
}

/// The question, as it comes back in an answer.
pub const QUESTION: &str = "Ada asks: may I send this mail?\n\nReply with `yes` or `no` by Mon 23 Nov 2026, 20:42 (Europe/Berlin).\n\n\
    To: eve@new.test  (NEW: neither in this thread nor in send_allow)\nSubject: The plan\n\nyes\n\n\
    The letter that this is about, by `Carol <carol@partner.test>` on Mon 23 Nov 2026, 10:14 (Europe/Berlin). These are their words:\n\n\
    > No, do not wait. But can you tell Eve?\n> yes\n\nHow to answer. Begin the first line of your reply with one of these words:\n\n\
    - `yes` lets it happen exactly as shown\n- `no`, or `no, because …`, refuses it\n\
    - `edit: …` refuses it and says what to change; you are asked again\n\nOnly you can answer this mail.";

pub fn quoted(text: &str) -> String {
    text.lines()
        .map(|line| format!("> {line}").trim_end().to_owned() + "\n")
        .collect()
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\n', "<br>\r\n")
}

/// The ways in which a body travels.
pub fn any_encoding(dice: &mut Dice) -> &'static str {
    dice.of(&["8bit", "quoted-printable", "base64"])
}
