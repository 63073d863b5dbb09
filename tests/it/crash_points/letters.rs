//! A client that hands a letter in and gives up at the first trouble; who calls it tries again.

use std::io::{Error, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Returns after the peer said yes and goodbye.
pub async fn hand_in(port: u16, letter: &str) -> Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let mut open = BufReader::new(stream);
    expect(&mut open, "220").await?;
    for (said, code) in [
        ("EHLO guest.example", "250"),
        ("MAIL FROM:<bob@guest.example>", "250"),
        ("RCPT TO:<ada@engine.test>", "250"),
        ("DATA", "354"),
    ] {
        open.write_all(format!("{said}\r\n").as_bytes()).await?;
        expect(&mut open, code).await?;
    }
    open.write_all(letter.replace('\n', "\r\n").as_bytes())
        .await?;
    open.write_all(b".\r\n").await?;
    expect(&mut open, "250").await?;
    // From here on it is the engine's, whatever becomes of the goodbye.
    let goodbye = async {
        open.write_all(b"QUIT\r\n").await?;
        expect(&mut open, "221").await
    };
    let _unheard = goodbye.await;
    Ok(())
}

async fn expect(open: &mut BufReader<TcpStream>, code: &str) -> Result<()> {
    loop {
        let mut line = String::new();
        if open.read_line(&mut line).await? == 0 {
            return Err(Error::other("the connection was lost"));
        }
        if !line.starts_with(code) {
            return Err(Error::other(line));
        }
        if line.as_bytes().get(3) == Some(&b' ') {
            return Ok(());
        }
    }
}
