//! WF03 to WF13: whatever a URL, a name server, a redirect or a page does, nothing private is asked and nothing is endless.

use super::servers::{Answers, Site, Then, code, fetch, page};
use attache::web::AnyRedirect;
use std::sync::atomic::Ordering;

const NOWHERE: &[&[&str]] = &[&["127.0.0.1"]];

#[tokio::test]
async fn no_form_of_a_private_address_is_connected_to() {
    // Port 80 of this machine; nothing has to listen there: the guard speaks before any connection.
    let forms = [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://127.0.0.1.nip.example/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://metadata.example/",
        "https://192.168.0.1/",
    ];
    for form in forms {
        let fetched = fetch(form, &[], Answers::of(NOWHERE)).await;
        assert_eq!(code(fetched), "address_not_allowed", "{form}");
    }
    for form in [
        "http://me@127.0.0.1/",
        "http://127.0.0.1:8080/",
        "file:///etc/passwd",
        "http://a.example/\r\nQUIT",
    ] {
        let fetched = fetch(form, &[], Answers::of(NOWHERE)).await;
        assert_eq!(code(fetched), "url_not_allowed", "{form}");
    }
}

#[tokio::test]
async fn one_private_answer_of_a_name_server_is_one_too_many() {
    for list in [
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["2606:4700::1111", "::1"],
    ] {
        let fetched = fetch("http://pub.example/", &[], Answers::of(&[&list])).await;
        assert_eq!(code(fetched), "address_not_allowed", "{list:?}");
    }
}

#[tokio::test]
async fn a_name_that_moves_to_a_private_address_is_looked_at_again_each_time() {
    let site = Site::page("text/plain", "inside").await;
    let url = format!("http://moves.example:{}/", site.port);
    let opened = [format!("moves.example:{}", site.port)];
    // Opened by its name, the second answer counts: the connection goes where the name was checked to lead.
    let answers = Answers::of(&[&["127.0.0.1"]]);
    let fetcher = attache::web::WebFetcher::new(&opened, answers.clone(), super::servers::limits());
    assert_eq!(
        fetcher
            .fetch(&url, &AnyRedirect)
            .await
            .expect("opened")
            .text,
        "inside"
    );
    assert_eq!(
        answers.asked.lock().expect("asked").len(),
        1,
        "asked once a connection"
    );
    // Not opened: an answer of an hour ago counts for nothing.
    let answers = Answers::of(&[&[], &["127.0.0.1"]]);
    let fetcher = attache::web::WebFetcher::new(&[], answers, super::servers::limits());
    for expected in ["not_reachable", "address_not_allowed"] {
        assert_eq!(
            code(fetcher.fetch("http://moves.example/", &AnyRedirect).await),
            expected
        );
    }
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn redirects_are_checked_like_the_first_url() {
    let inside = Site::page("text/plain", "inside").await;
    let to = |location: &str| {
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
    };
    let cases = [
        (to(&inside.url("/")), "url_not_allowed"),
        (to("http://10.0.0.1/"), "address_not_allowed"),
        (to("http://localhost/"), "address_not_allowed"),
        (to("file:///etc/passwd"), "url_not_allowed"),
        (to("http://127.0.0.1:{port}/again"), "too_many_redirects"),
        (
            "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "http_status",
        ),
    ];
    for (answer, expected) in cases {
        let site = Site::start(&answer, Then::Close).await;
        let fetched = fetch(&site.url("/"), &[&site], Answers::of(NOWHERE)).await;
        assert_eq!(code(fetched), expected, "{answer}");
        assert!(site.requests().len() <= 6, "{}", site.requests().len());
    }
    assert_eq!(inside.requests(), Vec::<String>::new());
    // The control: the same redirect to a site that is opened is followed.
    let site = Site::start(&to(&inside.url("/")), Then::Close).await;
    let fetched = fetch(&site.url("/"), &[&site, &inside], Answers::of(NOWHERE)).await;
    assert_eq!(fetched.expect("opened").url, inside.url("/"));
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_page_without_end_is_given_up_at_its_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
    let flood = Site::start(
        &format!("{head}\r\n"),
        Then::Repeat(&"x".repeat(65_536).leak()[..]),
    )
    .await;
    let fetched = fetch(&flood.url("/"), &[&flood], Answers::of(NOWHERE)).await;
    assert_eq!(code(fetched), "too_large");
    let headers = Site::start(head, Then::Repeat("x-more: again and again and again\r\n")).await;
    let fetched = fetch(&headers.url("/"), &[&headers], Answers::of(NOWHERE)).await;
    assert_eq!(code(fetched), "not_reachable");
    for site in [&flood, &headers] {
        let sent = site.sent_bytes.load(Ordering::SeqCst);
        // What the sockets hold comes on top.
        assert!(sent < 16_000_000, "{sent} bytes were taken");
    }
    for drip in [
        format!("{head}content-length: 100\r\n\r\nx"),
        head.to_owned(),
        String::new(),
    ] {
        let site = Site::start(&drip, Then::Hold).await;
        let fetched = fetch(&site.url("/"), &[&site], Answers::of(NOWHERE)).await;
        assert_eq!(code(fetched), "timed_out", "{drip}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_named_and_not_read() {
    for media_type in ["image/png", "application/pdf", "application/octet-stream"] {
        let site = Site::page(media_type, "x").await;
        let fetched = fetch(&site.url("/"), &[&site], Answers::of(NOWHERE)).await;
        assert_eq!(code(fetched), "not_text", "{media_type}");
    }
    let packed = page("text/plain\r\ncontent-encoding: gzip", "x");
    let site = Site::start(&packed, Then::Close).await;
    assert_eq!(
        code(fetch(&site.url("/"), &[&site], Answers::of(NOWHERE)).await),
        "not_text"
    );
    let site = Site::start(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        Then::Close,
    )
    .await;
    assert_eq!(
        code(fetch(&site.url("/"), &[&site], Answers::of(NOWHERE)).await),
        "http_status"
    );
}

#[tokio::test]
async fn a_page_is_read_as_text_and_nothing_is_sent_that_tells_who_asks() {
    let html = "<html><head><title>Menu</title><script>steal()</script></head><body><h1>Soup</h1><p>Leek &amp; potato</p></body></html>";
    let site = Site::page("text/html; charset=utf-8", html).await;
    let fetched = fetch(&site.url("/menu?day=1#top"), &[&site], Answers::of(NOWHERE)).await;
    let read = fetched.expect("opened");
    assert!(
        read.text.contains("Leek & potato") && !read.text.contains("steal"),
        "{}",
        read.text
    );
    let request = site.requests().remove(0).to_lowercase();
    assert!(
        request.starts_with("get /menu?day=1 http/1.1\r\n"),
        "{request}"
    );
    let names: Vec<&str> = request
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let known = ["user-agent", "accept", "accept-encoding", "host"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
}
