//! One file a format.
//!
//! - `zip_file`: archives, bounded; what docx, pptx and odt are made of
//! - `markup`: the text of XML
//! - `office`: docx, pptx, odt; `workbook`: xlsx, xls, ods; `rtf`; `pdf`; `mail`; `image`

pub mod zip_file;
pub mod markup;
pub mod office;
pub mod workbook;
pub mod rtf;
pub mod pdf;
pub mod mail;
pub mod image;
