//! The captures of tests/captures, taken from servers over real sockets, as golden replies.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;
use http::HeaderName;

use super::*;

/// One exchange: what was asked, and all that came back.
struct Capture {
    path: String,
    streamed: bool,
    /// Status and headers; `None` where the server closed without an answer.
    head: Option<(StatusCode, HeaderMap)>,
    body: Vec<u8>,
    clean: bool,
}

impl Capture {
    /// Reads a file: comments with the request, `# ----`, the head as it came, the body, and how curl ended.
    fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap();
        let border = b"# ----\n";
        let start = bytes.windows(border.len()).position(|window| window == border).unwrap() + border.len();
        let request = String::from_utf8(bytes[..start].to_vec()).unwrap();
        let end = bytes.windows(11).rposition(|window| window == b"[curl exit ").unwrap();
        let exit = String::from_utf8(bytes[end + 11..].to_vec()).unwrap();
        let answer = &bytes[start..end];
        let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let head = head_end.map(|head_end| {
            let head = String::from_utf8(answer[..head_end].to_vec()).unwrap();
            let mut lines = head.lines();
            let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            let header = |line: &str| {
                let (name, value) = line.split_once(':').unwrap();
                (name.parse::<HeaderName>().unwrap(), value.trim().parse().unwrap())
            };
            (status, lines.map(header).collect())
        });
        let path = request.lines().next().unwrap().splitn(4, '/').nth(3).unwrap().to_owned();
        Self {
            streamed: request.contains("\"stream\":true")
                || path.contains("stream")
                || path.starts_with("api/") && !request.contains("\"stream\":false"),
            path,
            head,
            body: head_end.map_or(Vec::new(), |head_end| answer[head_end + 4..].to_vec()),
            clean: exit.starts_with("0]"),
        }
    }

    fn dialect(&self) -> Arc<Dialect> {
        let by_path = [
            ("chat/completions", "openai-chat"),
            ("responses", "openai-responses"),
            ("v1/messages", "anthropic"),
            ("?alt=sse", "gemini"),
            ("streamGenerateContent", "gemini-array"),
            ("generateContent", "gemini"),
            ("api/chat", "ollama-chat"),
            ("api/generate", "ollama-generate"),
            ("v2/chat", "cohere-v2"),
            ("converse", "bedrock-converse"),
            ("v1/completions", "openai-chat"),
            ("completion", "llamacpp-completion"),
            // A path that the server does not know either.
            ("", "openai-chat"),
        ];
        dialect(by_path.iter().find(|(part, _)| self.path.contains(part)).unwrap().1)
    }

    fn run(&self, size: usize, delivery: Delivery) -> Caller {
        let now = Instant::now();
        let mut caller = Caller::new(opening(&self.dialect(), self.streamed, delivery), now);
        if let Some((status, headers)) = &self.head {
            let step = caller.turn.head(*status, headers, now);
            caller.take(step);
        }
        for chunk in self.body.chunks(size) {
            let step = caller.turn.chunk(chunk, now);
            caller.take(step);
        }
        let step = if self.clean { caller.turn.end(now) } else { caller.turn.reset(now) };
        caller.take(step);
        caller
    }

    /// What callers see: the frames of a stream, one a line, and the JSON.
    fn shown(&self) -> String {
        let asked = if self.streamed { "a stream" } else { "one body" };
        let mut shown = format!("{} of /{}\n", asked, self.path);
        for frame in self.run(usize::MAX, Delivery::Stream).frames() {
            let mut fields = frame.as_object().unwrap().clone();
            let name = fields.shift_remove("event").unwrap();
            let text = fields.shift_remove("text").map(|text| format!(" {text}")).unwrap_or_default();
            let rest = if fields.is_empty() { String::new() } else { format!(" {}", json!(fields)) };
            let _ = writeln!(shown, "    {}{text}{rest}", name.as_str().unwrap());
        }
        match self.run(usize::MAX, Delivery::Json).ending.unwrap() {
            Ending::Reply(reply) => writeln!(shown, "    200 {}", json!(reply)),
            Ending::Refused(failure) => {
                let retry =
                    failure.retry_after.map(|wait| format!(", Retry-After {}", wait.as_secs())).unwrap_or_default();
                writeln!(shown, "    {} {}: {}{retry}", status(failure.code), failure.code, failure.message)
            }
            Ending::Stream { .. } => unreachable!("JSON was asked for"),
        }
        .unwrap();
        shown
    }
}

/// The captures of each server and dialect, by folder.
fn folders() -> Vec<(String, Vec<(String, Capture)>)> {
    let sorted = |folder: &Path| {
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let folder = |folder: &Path| sorted(folder).iter().map(|file| (name(file), Capture::read(file))).collect();
    sorted(&root).iter().map(|path| (name(path), folder(path))).collect()
}

#[test]
fn every_capture_reads_as_its_golden_reply() {
    for (folder, captures) in folders() {
        let shown: Vec<String> =
            captures.iter().map(|(name, capture)| format!("{name}: {}", capture.shown())).collect();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/talk").join(format!("{folder}.txt"));
        expect_file![golden].assert_eq(&shown.join("\n"));
    }
}

#[test]
fn no_capture_depends_on_where_its_bytes_are_cut() {
    for (folder, captures) in folders() {
        for (name, capture) in captures {
            for delivery in DELIVERIES {
                let whole = capture.run(usize::MAX, delivery).seen();
                for size in [1, 2, 7, 100] {
                    assert_eq!(capture.run(size, delivery).seen(), whole, "{folder}/{name} in pieces of {size}");
                }
            }
        }
    }
}
