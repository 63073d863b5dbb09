//! What a command tries and cannot do: files, variables, the network, other processes, the kernel (SH02, SH03, SH05, SH06).

use super::{Yard, alive, is_there};
use attache::shell::{CommandEnd, ReadOnlyFolder};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

#[tokio::test]
async fn sh02_it_sees_no_file_and_no_variable_of_the_engine() {
    if !is_there(&["bwrap"]) {
        return;
    }
    let yard = Yard::new();
    let secret = tempfile::TempDir::new().expect("a folder");
    std::fs::write(secret.path().join("attache.db"), "K_DB").expect("a file");
    std::os::unix::fs::symlink(secret.path(), yard.folder.path().join("out")).expect("a link");
    std::os::unix::fs::symlink("/etc/shadow", yard.folder.path().join("s")).expect("a link");
    let script = format!(
        "cat /proc/1/environ; cat /etc/shadow s; cat /etc/passwd; cat {0}/attache.db; cat out/attache.db; ls ~/.config /root /home; true",
        secret.path().display()
    );
    let tried = yard.sh(&script).await;
    assert_eq!(tried.stdout.head, "", "{tried:?}");
    assert_eq!(
        yard.said("ls /").await,
        yard.said("printf '%s\\n' $(ls /)").await
    );
    let seen = yard.said("ls -a / /etc").await;
    for absent in [
        "root\n", "home\n", "var\n", "work\n", "passwd", "shadow", "hosts",
    ] {
        assert!(!seen.contains(absent), "{absent}: {seen}");
    }
    // This process has CARGO_MANIFEST_DIR and much else.
    let mut variables: Vec<_> = yard.said("env").await.lines().map(str::to_owned).collect();
    variables.sort();
    assert_eq!(
        variables,
        [
            "HOME=/workspace",
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "PWD=/workspace",
            "TMPDIR=/tmp"
        ]
    );
    let processes = yard
        .said("for p in /proc/[0-9]*; do cat $p/cmdline; echo; done")
        .await;
    assert!(
        !processes.contains("cargo") && !processes.contains("deps/it"),
        "{processes}"
    );
}

#[tokio::test]
async fn sh03_no_socket_of_any_family_reaches_anything() {
    if !is_there(&["bwrap", "python3"]) {
        return;
    }
    let yard = Yard::new();
    let tcp = ["127.0.0.1:0", "[::1]:0"].map(|at| TcpListener::bind(at).ok());
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let path = yard.folder.path().join("door");
    let unix = UnixListener::bind(&path).expect("a socket");
    let listeners: Vec<_> = tcp.into_iter().flatten().collect();
    let ports: Vec<String> = listeners
        .iter()
        .map(|listener| {
            listener
                .local_addr()
                .expect("an address")
                .port()
                .to_string()
        })
        .collect();
    let script = format!(
        r#"
import socket
def attempt(name, act):
    try:
        act(); print("REACHED", name)
    except OSError as error:
        print("refused", name, error.errno)
def tcp(family, host, port):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2); s.connect((host, port))
def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {udp}))
def unix(name):
    socket.socket(socket.AF_UNIX).connect(name)
for port in [{ports}]:
    attempt("v4", lambda: tcp(socket.AF_INET, "127.0.0.1", port))
    attempt("v6", lambda: tcp(socket.AF_INET6, "::1", port))
attempt("lan", lambda: tcp(socket.AF_INET, "10.0.0.1", 80))
attempt("udp", udp)
attempt("dns", lambda: socket.getaddrinfo("canary.evil.test", 80))
attempt("path", lambda: unix("/workspace/door"))
attempt("abstract", lambda: unix("\0/tmp/.X11-unix/X0"))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
a, b = socket.socketpair(); a.send(b"y"); print("pair", b.recv(1))
"#,
        udp = udp.local_addr().expect("an address").port(),
        ports = ports.join(",")
    );
    let tried = yard.python(&script).await;
    let said = &tried.stdout.head;
    assert!(
        !said.contains("REACHED") && said.contains("pair b'y'"),
        "{tried:?}"
    );
    assert!(said.matches("refused").count() >= 9, "{said}");
    udp.set_nonblocking(true).expect("a mode");
    unix.set_nonblocking(true).expect("a mode");
    assert!(udp.recv(&mut [0; 8]).is_err() && unix.accept().is_err());
    for listener in listeners {
        listener.set_nonblocking(true).expect("a mode");
        assert_eq!(
            listener.accept().expect_err("nobody").kind(),
            ErrorKind::WouldBlock
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn sh05_nothing_that_it_started_survives_it() {
    if !is_there(&["bwrap", "ps"]) {
        return;
    }
    let yard = Yard::new();
    let word = format!("86{}", std::process::id());
    let script = format!(
        "setsid sleep {word}1 & (setsid sh -c 'nohup sleep {word}2 >/dev/null 2>&1 &' &) ; \
         sh -c 'trap \"\" TERM HUP INT; sleep {word}3' & (crontab -l; at now) 2>/dev/null; sleep 0.2; ps -e >/dev/null; echo done"
    );
    let ended = yard.sh(&script).await;
    assert_eq!(ended.stdout.head, "done\n", "{ended:?}");
    assert_eq!(alive(&word), Vec::<String>::new());
    // A command whose caller goes away.
    let order = yard.order(&[
        "sh",
        "-c",
        &format!("touch began; setsid sleep {word}4 & sleep {word}5"),
    ]);
    let running = yard.sandbox.run(&order);
    let began = yard.folder.path().join("began");
    let waits = async {
        while !began.exists() || alive(&format!("sleep {word}")).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        () = waits => {}
    }
    let gone = async {
        while !alive(&word).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone)
        .await
        .expect("all are gone");
}

/// What a hostile command tries against mounts, namespaces, the kernel and the process `engine`.
fn attempts(engine: u32) -> String {
    format!(
        r#"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *args):
    got = libc.syscall(number, *args)
    print("DID" if got >= 0 else "refused", name, ctypes.get_errno())
call("ptrace", 101, 16, {engine}, 0, 0)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
call("umount", 166, b"/workspace", 2)
call("unshare user", 272, 0x10000000)
call("setns", 308, 0, 0)
call("clone user", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("x32 unshare", 272 | 0x40000000, 0x10000000)
call("bpf", 321, 0, 0, 0)
call("keyctl", 250, 0, 0, 0)
call("io_uring", 425, 8, 0)
call("perf", 298, 0, 0, -1, -1, 0)
call("userfaultfd", 323, 0)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
call("memfd", 319, b"x", 0)
call("chroot", 161, b"/tmp")
call("pivot_root", 155, b"/tmp", b"/tmp")
call("swapon", 167, b"/tmp/x", 0)
call("reboot", 169, 0xfee1dead, 672274793, 0, 0)
call("settime", 227, 0, 0)
def attempt(name, act):
    try:
        act(); print("DID", name)
    except OSError as error:
        print("refused", name, error.errno)
def write(path, text="x"):
    with open(path, "w") as f: f.write(text)
attempt("core_pattern", lambda: write("/proc/sys/kernel/core_pattern", "|/workspace/x"))
attempt("sysrq", lambda: write("/proc/sysrq-trigger", "b"))
attempt("usr", lambda: write("/usr/x"))
attempt("root", lambda: write("/x"))
attempt("dev", lambda: write("/dev/x"))
attempt("own program", lambda: write("/run/attache"))
attempt("memory of the first process", lambda: open("/proc/1/mem", "r+b"))
attempt("environment of the first process", lambda: open("/proc/1/environ").read())
write("/workspace/tool")
attempt("set-user-id", lambda: os.chmod("/workspace/tool", 0o4755))
attempt("set-user-id by open", lambda: os.open("/workspace/other", os.O_CREAT | os.O_WRONLY, 0o4755))
attempt("device", lambda: os.mknod("/workspace/null", 0o20666, os.makedev(1, 3)))
attempt("engine", lambda: os.kill({engine}, 0))
attempt("the first process", lambda: print("uid", os.getuid()))
for sig in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    os.kill(1, sig)
print("still here", flush=True)
os.kill(-1, signal.SIGTERM) if os.fork() == 0 else os.wait()
"#
    )
}

#[tokio::test]
async fn sh06_mounts_namespaces_tracing_and_signals_reach_nothing() {
    if !is_there(&["bwrap", "python3"]) {
        return;
    }
    let yard = Yard::new();
    let mut bystander = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("a process");
    let tried = yard.python(&attempts(std::process::id())).await;
    let said = &tried.stdout.head;
    let did: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("DID"))
        .collect();
    assert_eq!(did, ["DID the first process"], "{tried:?}");
    assert!(
        said.contains("uid 1000") && said.contains("still here"),
        "{said}"
    );
    assert!(said.matches("refused").count() >= 31, "{said}");
    let all = yard.sh("kill -9 -1; echo none is left to say this").await;
    assert_eq!(
        all.end,
        CommandEnd::Exited(0),
        "the shell itself is spared by kill(2): {all:?}"
    );
    assert!(
        bystander.try_wait().expect("a process").is_none(),
        "it lives"
    );
    bystander.kill().expect("killed");
    bystander.wait().expect("ended");
}

#[tokio::test]
async fn names_that_are_hidden_and_folders_that_may_be_read_are_so() {
    if !is_there(&["bwrap"]) {
        return;
    }
    let yard = Yard::new();
    let others = yard.folder.path().join("correspondents");
    std::fs::create_dir_all(&others).expect("a folder");
    std::fs::write(others.join("carol.txt"), "K_CAROL").expect("a file");
    let book = tempfile::TempDir::new().expect("a folder");
    std::fs::write(book.path().join("run.sh"), "echo from the book").expect("a file");
    let mut order = yard.order(&[
        "sh",
        "-c",
        "cat correspondents/*; echo x >correspondents/y; sh /skills/book/run.sh; echo x >/skills/book/z; true",
    ]);
    order.hidden = vec!["correspondents".to_owned()];
    order.read_only = vec![ReadOnlyFolder {
        from: book.path().to_owned(),
        to: "/skills/book".to_owned(),
    }];
    let tried = yard.sandbox.run(&order).await.expect("run");
    assert_eq!(tried.stdout.head, "from the book\n", "{tried:?}");
    assert_eq!(std::fs::read_dir(&others).expect("a folder").count(), 1);
    assert_eq!(std::fs::read_dir(book.path()).expect("a folder").count(), 1);
}
