//! The images of a letter that a model is shown, and the reasons why the others are not.

use super::{Contribution, Piece};
use crate::extract::image_header;
use crate::providers::contract::traits::{FileReference, IMAGE_TOKENS, Image};
use crate::store::MessageImage;

/// Most images of a letter that are shown: each costs about as much as a page of text.
const SHOWN_MAX: usize = 8;
/// Most bytes of all of them: Anthropic takes 32 MB a request, Gemini 20 MB, and base64 adds a third.
const SHOWN_BYTES_MAX: u64 = 10_000_000;
/// Longest side in pixels, and most pixels: what Anthropic takes, and what costs a model's server no more than a photograph.
const SIDE_MAX: u32 = 8_000;
const PIXELS_MAX: u64 = 40_000_000;
/// Shortest side in pixels: smaller ones are ornaments of a signature, or count who reads the letter.
const SIDE_MIN: u32 = 64;

/// Adds the images to the contribution of the letter's text, as far as `left_tokens` go.
pub fn add(contribution: &mut Contribution, images: &[MessageImage], mut left_tokens: usize) {
    let (mut shown, mut left_bytes) = (Vec::<&str>::new(), SHOWN_BYTES_MAX);
    for image in images {
        let source = format!("image {}", image.filename);
        let described = match header(image) {
            Ok(_) if shown.contains(&image.sha256.as_str()) => {
                Err("it is shown already".to_owned())
            }
            Ok(_) if shown.len() == SHOWN_MAX => {
                Err(format!("{SHOWN_MAX} images are shown already"))
            }
            Ok(_) if image.size_bytes > left_bytes => Err(format!(
                "all images together are larger than {SHOWN_BYTES_MAX} bytes"
            )),
            Ok(_) if left_tokens < usize::from(IMAGE_TOKENS) => {
                Err("it did not fit the budget of the letter".to_owned())
            }
            described => described,
        };
        match described {
            Ok(media_type) => {
                shown.push(&image.sha256);
                left_bytes -= image.size_bytes;
                left_tokens -= usize::from(IMAGE_TOKENS);
                let piece = Piece::Image(Some(of(image, media_type)));
                contribution.pieces.push((source, piece));
            }
            Err(why) => contribution.left_out.push((source, why)),
        }
    }
}

/// Returns the media type of an image that can be shown, by its bytes. Errors: why it cannot.
fn header(image: &MessageImage) -> Result<&'static str, String> {
    if image.bytes.is_empty() {
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

fn of(image: &MessageImage, media_type: &str) -> Image {
    Image {
        file: FileReference {
            name: image.filename.clone(),
            media_type: media_type.to_owned(),
            digest: image.sha256.clone(),
            size_bytes: image.size_bytes,
        },
        bytes: Some(image.bytes.clone().into()),
    }
}
