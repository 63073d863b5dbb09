//! Fields of a form, as bytes: `application/x-www-form-urlencoded`, or `multipart/form-data` (RFC 7578).

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// Most fields that are read.
const FIELDS_MAX: usize = 200;

/// Reads the fields of a form; `None`: the body is none.
pub(super) fn fields(headers: &HeaderMap, body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let name = kind.split(';').next()?.trim().to_ascii_lowercase();
    match name.as_str() {
        "application/x-www-form-urlencoded" => Some(urlencoded(body)),
        "multipart/form-data" => multipart(parameter(kind, "boundary")?, body),
        _ => None,
    }
}

/// Reads a form whose values may be any bytes: a letter is not always UTF-8.
fn urlencoded(body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let pairs = body.split(|byte| *byte == b'&').take(FIELDS_MAX);
    let pairs = pairs.map(|pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let name = decoded(halves.next().unwrap_or_default());
        let value = decoded(halves.next().unwrap_or_default());
        (String::from_utf8_lossy(&name).into_owned(), value)
    });
    pairs.collect()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match escaped(text, at) {
                Some(byte) => {
                    bytes.push(byte);
                    at += 2;
                }
                None => bytes.push(b'%'),
            },
            byte => bytes.push(*byte),
        }
    }
    bytes
}

/// Reads the two digits of an escaped byte.
fn escaped(text: &[u8], at: usize) -> Option<u8> {
    let digits = text.get(at..at + 2)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

fn multipart(boundary: &str, body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    // RFC 2046 section 5.1.1: 70 characters at most.
    if boundary.is_empty() || boundary.len() > 70 {
        return None;
    }
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter may begin the body, without a line end before it.
    let first = &delimiter.as_bytes()[2..];
    let mut rest = match body.starts_with(first) {
        true => &body[first.len()..],
        false => &body[find(body, delimiter.as_bytes())? + delimiter.len()..],
    };
    let mut found = Vec::new();
    while !rest.starts_with(b"--") && found.len() < FIELDS_MAX {
        let part = rest.get(find(rest, b"\r\n")? + 2..)?;
        let end = find(part, delimiter.as_bytes())?;
        rest = &part[end + delimiter.len()..];
        let part = &part[..end];
        let head_end = find(part, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&part[..head_end]);
        if let Some(name) = field_name(&head) {
            found.push((name, part[head_end + 4..].to_vec()));
        }
    }
    Some(found)
}

/// Returns the name in `Content-Disposition` of a part.
fn field_name(head: &str) -> Option<String> {
    let mut lines = head.split("\r\n");
    let value = lines.find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim()
            .eq_ignore_ascii_case("content-disposition")
            .then_some(value)
    })?;
    parameter(value, "name").map(str::to_owned)
}

/// Returns a parameter of a header field's value, without its quotation marks.
fn parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = value.split(';').skip(1);
    let typed = parameters.find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })?;
    let inside = typed
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some(inside.unwrap_or(typed))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &'static str, body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind.parse().expect("a value"));
        fields(&headers, body)
    }

    #[test]
    fn both_forms_have_the_same_fields_byte_for_byte() {
        let expected = [
            ("token".to_owned(), b"a b".to_vec()),
            ("body-mime".to_owned(), b"X: \xff\r\n\r\n--C?\r\n".to_vec()),
        ];
        let form = b"token=a+b&body-mime=X%3A+%ff%0D%0a%0d%0a--C?%0d%0a";
        let kind = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(read(kind, form).as_deref(), Some(expected.as_slice()));
        let parts = b"--B\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\na b\r\n--B\r\ncontent-disposition: form-data; \
            name=\"body-mime\"; filename=\"x\"\r\nContent-Type: x/y\r\n\r\nX: \xff\r\n\r\n--C?\r\n\r\n--B--\r\n";
        let kind = "multipart/form-data; boundary=\"B\"";
        assert_eq!(read(kind, parts).as_deref(), Some(expected.as_slice()));
    }

    #[test]
    fn what_is_no_form_is_none_and_nothing_is_read_beyond_its_end() {
        let multipart = "multipart/form-data; boundary=B";
        for body in [
            &b""[..],
            b"--B",
            b"--B\r\n",
            b"--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx",
            b"--C\r\n\r\n--C--",
        ] {
            assert_eq!(read(multipart, body), None, "{body:?}");
        }
        assert_eq!(read("multipart/form-data", b"--B--"), None);
        assert_eq!(read("text/plain", b"a=b"), None);
        let odd = read("application/x-www-form-urlencoded", b"a=%&b=%4&%zz=%41");
        let names: Vec<_> = odd.into_iter().flatten().collect();
        assert_eq!(names[0], ("a".to_owned(), b"%".to_vec()));
        assert_eq!(names[1], ("b".to_owned(), b"%4".to_vec()));
        assert_eq!(names[2], ("%zz".to_owned(), b"A".to_vec()));
    }
}
