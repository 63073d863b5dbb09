//! The images of a letter that a model is shown, and the reasons why the others are not.

use super::{Contribution, Piece};
use crate::extract::image_header;
use crate::providers::contract::traits::{FileReference, IMAGE_TOKENS, Image, PDF_BYTES_MAX};
use crate::store::MessageFile;

/// Most images of a letter that are shown: each costs about as much as a page of text.
const SHOWN_MAX: usize = 8;
/// Largest image in bytes; the adapters take smaller ones still.
const IMAGE_BYTES_MAX: u64 = 5_000_000;
/// Longest side in pixels, and most pixels: what Anthropic takes, and what costs a model's server no more than a photograph.
const SIDE_MAX: u32 = 8_000;
const PIXELS_MAX: u64 = 40_000_000;
/// Shortest side in pixels: smaller ones are ornaments of a signature, or count who reads the letter.
const SIDE_MIN: u32 = 64;

/// What is left for the files of a letter.
pub struct FileBudget {
    pub tokens: usize,
    /// Of all files together, because vendors bound the request.
    pub bytes: u64,
}

impl FileBudget {
    pub fn of(tokens: usize) -> Self {
        Self {
            tokens,
            bytes: PDF_BYTES_MAX,
        }
    }

    /// Takes room for a file of these tokens and bytes; `all` names what shares it. Errors: why there is none.
    pub fn take(&mut self, all: &str, tokens: usize, bytes: u64) -> Result<(), String> {
        if bytes > self.bytes {
            return Err(format!(
                "all {all} together are larger than {PDF_BYTES_MAX} bytes"
            ));
        }
        if tokens > self.tokens {
            return Err("it did not fit the budget of the letter".to_owned());
        }
        self.tokens -= tokens;
        self.bytes -= bytes;
        Ok(())
    }
}

/// Adds the images to the contribution of the letter's text, as far as there is room.
pub fn add(contribution: &mut Contribution, files: &[MessageFile], room: &mut FileBudget) {
    let mut shown = Vec::<&str>::new();
    for image in files.iter().filter(|file| file.is_image()) {
        let source = format!("image {}", image.filename);
        let described = match header(image) {
            Ok(_) if shown.contains(&image.sha256.as_str()) => {
                Err("it is shown already".to_owned())
            }
            Ok(_) if shown.len() == SHOWN_MAX => {
                Err(format!("{SHOWN_MAX} images are shown already"))
            }
            Ok(media_type) => room
                .take("images", usize::from(IMAGE_TOKENS), image.size_bytes)
                .map(|()| media_type),
            refused => refused,
        };
        match described {
            Ok(media_type) => {
                shown.push(&image.sha256);
                let piece = Piece::Image(Some(of(image, media_type)));
                contribution.pieces.push((source, piece));
            }
            Err(why) => contribution.left_out.push((source, why)),
        }
    }
}

/// Returns the media type of an image that can be shown, by its bytes. Errors: why it cannot.
fn header(image: &MessageFile) -> Result<&'static str, String> {
    if image.bytes.is_empty() || image.size_bytes > IMAGE_BYTES_MAX {
        return Err("it is too large, or its bytes were pruned".to_owned());
    }
    let Some((media_type, facts)) = image_header(&image.bytes) else {
        return Err("it is no png, jpeg, gif or webp with a readable header".to_owned());
    };
    let (width, height) = (facts.width, facts.height);
    if width.max(height) > SIDE_MAX || u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(format!("{width} x {height} pixels are too many"));
    }
    if width.min(height) < SIDE_MIN {
        return Err(format!("{width} x {height} pixels are an ornament"));
    }
    Ok(media_type)
}

fn of(image: &MessageFile, media_type: &str) -> Image {
    Image {
        file: reference(image, media_type),
        bytes: Some(image.bytes.clone().into()),
    }
}

/// Returns the reference to a file of the type that its bytes have.
pub fn reference(file: &MessageFile, media_type: &str) -> FileReference {
    FileReference {
        name: file.filename.clone(),
        media_type: media_type.to_owned(),
        digest: file.sha256.clone(),
        size_bytes: file.size_bytes,
    }
}
