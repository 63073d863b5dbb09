//! Parser of server-sent events, by the standard (WHATWG HTML, section 9.2.6). Pure.
//!
//! Lines that are no field of the standard are ignored, and so is an event that its blank line did
//! not end, but for `[DONE]`: some servers close behind it, and it cannot be half of anything. One field of our own: llama.cpp
//! reports the error that ends an answer as `error: {…}`, which must not be lost.

/// One event that its blank line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSentEvent {
    /// Value of `event`, empty without one.
    pub name: String,
    pub data: String,
}

/// Splitter of a body into events, however it is cut.
#[derive(Default)]
pub struct EventSplitter {
    bytes: Vec<u8>,
    /// Position of the next line.
    start: usize,
    /// Position up to which there is no line end.
    searched: usize,
    /// `true`: the first line was checked for a byte order mark.
    begun: bool,
    name: String,
    /// Lines of `data` so far; `None`: none yet.
    data: Option<String>,
}

impl EventSplitter {
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next event; `None` until more bytes come.
    pub fn take(&mut self) -> Option<ServerSentEvent> {
        while let Some(line) = self.line() {
            if !line.is_empty() {
                self.field(&line);
                continue;
            }
            let name = std::mem::take(&mut self.name);
            // An event without data is ignored; servers keep a connection alive with it.
            if let Some(data) = self.data.take().filter(|data| !data.is_empty()) {
                return Some(ServerSentEvent { name, data });
            }
        }
        None
    }

    /// Returns the next line without its end: CRLF, LF or CR. A CR at the end of a piece may have
    /// its LF in the next one.
    fn line(&mut self) -> Option<String> {
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let Some(at) = self.bytes[self.searched..].iter().position(is_end) else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + at;
        let after = match (self.bytes[end], self.bytes.get(end + 1)) {
            (b'\r', None) => {
                self.searched = end;
                return None;
            }
            (b'\r', Some(b'\n')) => end + 2,
            _ => end + 1,
        };
        // Bytes that are no UTF-8 spoil their own characters only.
        let mut line = String::from_utf8_lossy(&self.bytes[self.start..end]).into_owned();
        (self.start, self.searched) = (after, after);
        if !std::mem::replace(&mut self.begun, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned();
        }
        Some(line)
    }

    fn field(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "error" if value.starts_with('{') => self.data = Some(format!("{{\"error\":{value}}}")),
            _ => {}
        }
    }

    /// Handles the end of the body: a last CR ends its line after all, and an event without its
    /// blank line is dropped, unless it is `[DONE]`.
    pub fn rest(&mut self) -> Option<ServerSentEvent> {
        if self.bytes[self.start..].last() == Some(&b'\r') {
            self.push(b"\n");
            if let Some(event) = self.take() {
                return Some(event);
            }
        }
        self.push(b"\n\n");
        self.take().filter(|event| event.data.trim() == "[DONE]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let (mut events, mut out) = (EventSplitter::default(), Vec::new());
        for piece in pieces {
            events.push(piece);
            while let Some(event) = events.take() {
                out.push((event.name, event.data));
            }
        }
        out.extend(events.rest().map(|event| (event.name, event.data)));
        out
    }

    #[test]
    fn events_are_read_as_the_standard_says_however_they_are_cut() {
        let text = "\u{feff}data: a\n\n: c\nfoo: b\nbar\nretry: soon\nid: 7\n\ndata\n\ndata:\ndata:\n\n\
            event: x\ndata:  b\r\ndata:c\r\n\r\nevent: y\n\ndata: d\r\rdata: \u{e9}\n\nerror: {\"m\":1}\n\ndata: lost\n";
        let one = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        let expected = [
            one("", "a"),
            one("", "\n"),
            one("x", " b\nc"),
            one("", "d"),
            one("", "\u{e9}"),
            one("", "{\"error\":{\"m\":1}}"),
        ];
        let bytes = text.as_bytes();
        for size in 1..=bytes.len() {
            assert_eq!(
                read(&bytes.chunks(size).collect::<Vec<_>>()),
                expected,
                "pieces of {size}"
            );
        }
        assert_eq!(read(&[b"data: e\n\r"]), [one("", "e")]);
        assert_eq!(read(&[b"data: \xff\n\n"]), [one("", "\u{fffd}")]);
    }
}
