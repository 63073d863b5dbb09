//! The bounds of parsing a letter.

/// Bounds of [`super::parse`]. A letter beyond one of the first four is refused; beyond the others
/// it loses content, which is recorded as a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Levels of multiparts and messages inside each other.
    pub depth_max: usize,
    /// Body parts of all levels together, containers included.
    pub parts_max: usize,
    /// Bytes of one header section, the letter's own or a part's.
    pub header_bytes_max: usize,
    /// `Received` fields of the letter.
    pub received_max: usize,
    /// Bytes of one HTML part; of a larger one the tags are removed without parsing.
    pub html_bytes_max: usize,
    /// Nesting depth of HTML elements; deeper HTML loses its tags likewise.
    pub html_depth_max: usize,
    /// Ids kept of one `References` field: the first one and the last ones.
    pub references_max: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            depth_max: 30,
            parts_max: 500,
            header_bytes_max: 256 * 1024,
            received_max: 50,
            html_bytes_max: 512 * 1024,
            html_depth_max: 512,
            references_max: 200,
        }
    }
}

/// Reason why a letter did not become an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The letter is an attack on the parser, or loops: refuse it (554 5.6.0).
    #[error("{0}")]
    Hostile(&'static str),
    /// The bytes are no mail: keep them, run nothing.
    #[error("{0}")]
    NotAnEmail(&'static str),
}
