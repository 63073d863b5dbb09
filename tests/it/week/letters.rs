//! The letters of a week: to three personas, in threads of four, some with an attachment, some to nobody.

use crate::reload::Caller;
use std::fmt::Write;

const PERSONAS: [&str; 3] = ["ada", "bert", "carla"];
/// A letter to nobody after so many.
const TO_NOBODY_EVERY: usize = 5;
const ATTACHMENT_EVERY: usize = 3;
const THREAD: usize = 4;
const TEXT_BYTES: usize = 1500;
const ATTACHMENT_BYTES: usize = 48 * 1024;

pub struct Letter {
    /// Without the angle brackets.
    pub id: String,
    to: String,
    text: String,
}

impl Letter {
    pub fn of(day: usize, number: usize) -> Self {
        let thread = number / THREAD;
        let persona = match number % TO_NOBODY_EVERY == TO_NOBODY_EVERY - 1 {
            true => "nobody",
            false => PERSONAS[thread % PERSONAS.len()],
        };
        let name = |number: usize| format!("d{day}n{number}@guest.example");
        let (id, to) = (name(number), format!("{persona}@engine.test"));
        let mut text = format!(
            "From: guest{thread}@guest.example\r\nTo: {to}\r\nSubject: Rooms of day {day}, {thread}\r\nMessage-ID: <{id}>\r\n"
        );
        if !number.is_multiple_of(THREAD) {
            let _infallible = write!(text, "In-Reply-To: <{}>\r\n", name(number - 1));
        }
        let mut disorder = Disorder((day * 1000 + number) as u64 + 1);
        let words = disorder.words(TEXT_BYTES);
        match number.is_multiple_of(ATTACHMENT_EVERY) {
            true => {
                let attached = disorder.base64(ATTACHMENT_BYTES);
                let _infallible = write!(
                    text,
                    "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\n\
                     {words}--B\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=plan.bin\r\n\
                     Content-Transfer-Encoding: base64\r\n\r\n{attached}--B--\r\n"
                );
            }
            false => {
                let _infallible = write!(text, "\r\n{words}");
            }
        }
        Self { id, to, text }
    }

    /// Hands it over; whether it was taken.
    pub async fn handed_to(&self, caller: &mut Caller) -> bool {
        let said = caller.address(&self.to).await;
        if self.to.starts_with("nobody") {
            assert!(said.starts_with("550"), "{said}");
            return false;
        }
        assert!(said.starts_with("250"), "{said}");
        let said = caller.say("DATA").await;
        assert!(said.starts_with("354"), "{said}");
        let said = caller.say(&format!("{}.", self.text)).await;
        assert!(said.starts_with("250"), "{said}");
        true
    }
}

/// Words and bytes that no packing makes small, the same at every run.
struct Disorder(u64);

impl Disorder {
    fn next(&mut self) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize
    }

    fn letters(&mut self, alphabet: &[u8], count: usize) -> String {
        let letter = |_| char::from(alphabet[self.next() % alphabet.len()]);
        (0..count).map(letter).collect()
    }

    /// Lines of words.
    fn words(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let length = 3 + self.next() % 6;
            text += &self.letters(b"abcdefghijklmnopqrstuvwxyz", length);
            text += if self.next().is_multiple_of(10) {
                "\r\n"
            } else {
                " "
            };
        }
        text + "\r\n"
    }

    fn base64(&mut self, bytes: usize) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let lines = (0..bytes / 57).map(|_| self.letters(alphabet, 76) + "\r\n");
        lines.collect()
    }
}
