//! The PROXY protocol, version 2, in front of a connection (haproxy's `proxy-protocol.txt`, section
//! 2.2).
//!
//! Absent on purpose: version 1, which is text of unknown length; UDP; Unix addresses; every TLV.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_BYTES: usize = 16;
/// Maximum bytes of addresses and TLVs; haproxy's own, with certificate details, stay below a tenth
/// of it.
const BODY_BYTES_MAX: usize = 4096;

/// Client of a proxied connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxiedClient {
    /// The proxy itself, for example for a health check.
    Proxy,
    Client(IpAddr),
}

/// Error of a connection without a valid header.
#[derive(Debug, thiserror::Error)]
pub enum BadHeader {
    #[error("no PROXY protocol v2 header")]
    NotOne,
    #[error("a PROXY header of {0} bytes")]
    TooLong(usize),
    #[error("a PROXY header for something other than TCP over IP")]
    NotTcp,
    #[error("the connection ended inside the PROXY header")]
    Disconnect(#[from] io::Error),
}

/// Reads exactly the header and no byte after it.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<ProxiedClient, BadHeader> {
    let mut head = [0; HEAD_BYTES];
    // Byte by byte at first: a client that is no proxy may wait for our greeting after fewer bytes
    // than a header.
    for at in 0..SIGNATURE.len() {
        head[at] = stream.read_u8().await?;
        if head[at] != SIGNATURE[at] {
            return Err(BadHeader::NotOne);
        }
    }
    stream.read_exact(&mut head[SIGNATURE.len()..]).await?;
    let [.., version_command, family, high, low] = head;
    let body_bytes = usize::from(u16::from_be_bytes([high, low]));
    if body_bytes > BODY_BYTES_MAX {
        return Err(BadHeader::TooLong(body_bytes));
    }
    let mut body = vec![0; body_bytes];
    stream.read_exact(&mut body).await?;
    origin(version_command, family, &body)
}

fn origin(version_command: u8, family: u8, body: &[u8]) -> Result<ProxiedClient, BadHeader> {
    match (version_command, family) {
        (0x20, _) => Ok(ProxiedClient::Proxy), // LOCAL: the addresses are ignored
        (0x21, 0x11) => {
            let source: [u8; 4] = *body
                .get(..12)
                .and_then(<[u8]>::first_chunk)
                .ok_or(BadHeader::NotOne)?;
            Ok(ProxiedClient::Client(Ipv4Addr::from(source).into()))
        }
        (0x21, 0x21) => {
            let source: [u8; 16] = *body
                .get(..36)
                .and_then(<[u8]>::first_chunk)
                .ok_or(BadHeader::NotOne)?;
            Ok(ProxiedClient::Client(Ipv6Addr::from(source).to_canonical()))
        }
        // An unknown client would be taken for the proxy, which may have more trust.
        (0x21, _) => Err(BadHeader::NotTcp),
        _ => Err(BadHeader::NotOne),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version_command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [
            SIGNATURE.as_slice(),
            &[version_command, family],
            &length,
            body,
        ]
        .concat()
    }

    async fn read_all(bytes: &[u8]) -> (Result<ProxiedClient, String>, usize) {
        let mut rest = bytes;
        let read = read(&mut rest).await.map_err(|error| error.to_string());
        (read, bytes.len() - rest.len())
    }

    #[tokio::test]
    async fn the_source_is_read_and_not_a_byte_more() {
        let v4 = [
            &[192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0, 25],
            [4, 0, 1, 9].as_slice(),
        ]
        .concat();
        let v6 = [Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::UNSPECIFIED.octets()].concat();
        let mapped = [
            Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets(),
            [0; 16],
        ]
        .concat();
        let client = |text: &str| Ok(ProxiedClient::Client(text.parse().unwrap()));
        for (version_command, family, body, expected) in [
            (0x21, 0x11, v4.clone(), client("192.0.2.7")),
            (0x21, 0x21, [v6, vec![0; 4]].concat(), client("::1")),
            (
                0x21,
                0x21,
                [mapped, vec![0; 4]].concat(),
                client("192.0.2.7"),
            ),
            (0x20, 0x11, v4, Ok(ProxiedClient::Proxy)),
            (0x20, 0x00, Vec::new(), Ok(ProxiedClient::Proxy)),
        ] {
            let header = header(version_command, family, &body);
            let read = read_all(&[header.as_slice(), b"EHLO x\r\n"].concat()).await;
            assert_eq!(read, (expected, header.len()));
        }
    }

    #[tokio::test]
    async fn anything_else_is_no_header_and_no_length_is_believed() {
        let good = header(0x21, 0x11, &[1; 12]);
        for cut in 0..good.len() {
            assert!(read_all(&good[..cut]).await.0.is_err(), "cut at {cut}");
        }
        for at in 0..14 {
            for bit in 0..8 {
                let mut bad = [good.clone(), vec![0; 300]].concat();
                bad[at] ^= 1 << bit;
                let (read, _) = read_all(&bad).await;
                let is_local = bad[12] == 0x20;
                assert!(
                    read.is_err() || is_local,
                    "bit {bit} of byte {at}: {read:?}"
                );
            }
        }
        let refused = [
            (0x21, 0x00, vec![0; 12]),  // unknown
            (0x21, 0x12, vec![1; 12]),  // UDP
            (0x21, 0x31, vec![1; 216]), // Unix
            (0x21, 0x11, vec![1; 11]),  // too short for its addresses
            (0x21, 0x21, vec![1; 35]),
            (0x22, 0x11, vec![1; 12]),
            (0x11, 0x11, vec![1; 12]),
        ];
        for (version_command, family, body) in refused {
            assert!(
                read_all(&header(version_command, family, &body))
                    .await
                    .0
                    .is_err()
            );
        }
        let long = header(0x20, 0x00, &vec![0; BODY_BYTES_MAX + 1]);
        assert_eq!(
            read_all(&long).await,
            (Err("a PROXY header of 4097 bytes".to_owned()), HEAD_BYTES)
        );
        let (read, used) = read_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 4660 25\r\n").await;
        assert_eq!(
            (read, used),
            (Err("no PROXY protocol v2 header".to_owned()), 1)
        );
    }
}
