//! The bounds that a letter is parsed within.

/// Bounds of [`super::parse`]. The first four refuse the letter, the others make it lose something and say so.
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
    /// Bytes of one HTML part; a larger one is stripped of its tags without being understood.
    pub html_bytes_max: usize,
    /// Elements inside each other; deeper HTML is stripped likewise.
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
