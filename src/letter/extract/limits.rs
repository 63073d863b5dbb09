//! Bounds of reading one document.

/// Version of the decoders; raised when they read other text from the same bytes.
pub const EXTRACTOR_VERSION: u32 = 2;

/// Bounds of one document and of the process that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtractLimits {
    /// Largest document.
    pub file_bytes_max: usize,
    /// Longest text; the rest is cut.
    pub text_bytes_max: usize,
    /// Memory of the process, its program included.
    pub address_space_bytes_max: u64,
    /// Computing time of the process.
    pub cpu_seconds_max: u64,
    /// Time from start to end.
    pub wall_ms_max: u64,
    /// Most processes at once.
    pub children_max: usize,
    /// Most files in an archive.
    pub entries_max: usize,
    /// Most bytes that are unpacked from an archive.
    pub unpacked_bytes_max: u64,
    /// Most unpacked bytes for one packed byte.
    pub ratio_max: u64,
    /// Most rows of one sheet or table.
    pub rows_max: usize,
    /// Most pages, slides or sheets.
    pub pages_max: usize,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self {
            file_bytes_max: 32 * 1024 * 1024,
            text_bytes_max: 1024 * 1024,
            address_space_bytes_max: 768 * 1024 * 1024,
            cpu_seconds_max: 10,
            wall_ms_max: 20_000,
            children_max: 2,
            entries_max: 2_000,
            unpacked_bytes_max: 64 * 1024 * 1024,
            ratio_max: 100,
            rows_max: 10_000,
            pages_max: 2_000,
        }
    }
}
