//! Sockets that listen for mail or serve the pages: TCP, or a file of the workspace.

use crate::config::ListenAddress;
use std::fs::{FileType, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// An open socket that accepts connections.
pub enum ListenSocket {
    Tcp(TcpListener),
    /// The file goes before the listener: a successor that finds nobody there has a file of its own by then.
    Unix(SocketFile, UnixListener),
}

/// An accepted connection.
pub enum Caller {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl ListenSocket {
    /// Binds an address. Errors: it is taken, or it is no address of this machine.
    pub async fn open(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            ListenAddress::Unix { path, mode } => {
                let (listener, file) = bind_file(path, *mode).await?;
                Ok(Self::Unix(file, listener))
            }
        }
    }

    /// Returns the address that is bound, in the configuration's syntax.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map(|a| a.to_string())
                .unwrap_or_default(),
            Self::Unix(file, _) => format!("unix:{}", file.path.display()),
        }
    }

    /// Returns the bound TCP address; `None` for a Unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Waits for a connection.
    pub async fn accept(&self) -> io::Result<Caller> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Caller::Tcp(stream, peer.ip().to_canonical()))
            }
            Self::Unix(_, listener) => Ok(Caller::Unix(listener.accept().await?.0)),
        }
    }
}

/// The file of a Unix socket, removed with its listener.
pub struct SocketFile {
    path: PathBuf,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "a socket's file was gone already");
        }
    }
}

/// Binds a Unix socket. Replaces the file of a socket without a listener, but no other file.
async fn bind_file(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    match std::fs::symlink_metadata(path).map(|file| file.file_type()) {
        Ok(kind) if FileType::is_socket(&kind) => match UnixStream::connect(path).await {
            Ok(_) => {
                return Err(io::Error::new(
                    ErrorKind::AddrInUse,
                    "another program listens there",
                ));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        },
        Ok(_) => {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "this file is no socket",
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        }
        Err(error) => return Err(error),
    }
    // Under a temporary name until its mode is set, so that no program connects before; the rename
    // replaces a stale socket.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut file = SocketFile {
        path: path.with_file_name(format!(".{name}.new")),
    };
    match std::fs::remove_file(&file.path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&file.path)?;
    std::fs::set_permissions(&file.path, Permissions::from_mode(mode))?;
    std::fs::rename(&file.path, path)?;
    file.path = path.to_owned();
    Ok((listener, file))
}
