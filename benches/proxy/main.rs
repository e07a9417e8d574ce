//! What the gateway costs: ratios to a bare Pingora proxy, and to nginx where it is installed, over one upstream.
//!
//! `cargo bench --bench proxy` measures for a few minutes; `-- --smoke` only sees that everything runs, and
//! `-- --only TEXT` measures the scenarios whose name holds the text. The runs are interleaved and repeated, and what is
//! printed is the median of each: a machine that is busy is busy for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a bench that can't run ends with a panic"
)]

mod contestant;
mod load;
mod upstream;

use std::time::Duration;

use contestant::Contestant;
use load::{Load, Measured};

/// One thing that is measured.
struct Scenario {
    name: &'static str,
    /// For the gateway, and for those that only pass bytes.
    gateway: String,
    passed: Option<String>,
    load: Load,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, listen, upstream] = arguments.as_slice()
        && command == "bare-pingora"
    {
        return contestant::bare_pingora(listen, upstream);
    }
    let smoke = arguments.iter().any(|argument| argument == "--smoke");
    let (rounds, period) = if smoke { (1, Duration::from_millis(200)) } else { (5, Duration::from_secs(3)) };
    let upstream = upstream::start();
    let contestants =
        [Some(Contestant::gateway(upstream)), Some(Contestant::pingora(upstream)), Contestant::nginx(upstream)];
    println!("rounds: {rounds} of {} ms each, interleaved; medians", period.as_millis());
    let only = arguments.iter().skip_while(|argument| *argument != "--only").nth(1);
    for scenario in scenarios().into_iter().filter(|scenario| only.is_none_or(|only| scenario.name.contains(only))) {
        let mut results: Vec<Vec<Measured>> = contestants.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (contestant, results) in contestants.iter().zip(&mut results) {
                let Some(contestant) = contestant else { continue };
                let request = if contestant.is_gateway { Some(&scenario.gateway) } else { scenario.passed.as_ref() };
                if let Some(request) = request {
                    results.push(scenario.load.run(contestant, request, period));
                }
            }
        }
        report(&scenario, &contestants, results);
    }
}

fn scenarios() -> Vec<Scenario> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let post = |path: &str, accept: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let message = r#"{"message":"How is the weather?"}"#;
    let prompt = r#"{"model":"bench","messages":[{"role":"user","content":"How is the weather?"}],"stream":true}"#;
    let fast = r#"{"message":"fast"}"#;
    let item = r#"{"type":"reply","message":"It rains."}"#;
    let write = post("/news", "*/*", item).replacen("\r\n", "\r\nRestap-Session-Id: CALLER\r\n", 1);
    let requests = |connections| Load::Requests { connections };
    let order = |path: &str| post(path, "application/json", &upstream::order());
    let called = |name, gateway, passed| Scenario { name, gateway, passed: Some(passed), load: requests(32) };
    vec![
        called("capability, GET of 90 bytes", get("/weather/oslo"), get("/weather/oslo")),
        called("capability, POST of 1 KB, passed", order("/orders"), order("/orders")),
        called("capability, POST of 1 KB, checked", order("/checked"), order("/orders")),
        called("capability, POST of 1 KB, checked and mapped", order("/mapped"), order("/orders")),
        called("capability, GET of 90 bytes, kept", get("/kept/oslo"), get("/weather/oslo")),
        Scenario {
            name: "talk, JSON of 8 deltas",
            gateway: post("/talk", "application/json", fast),
            passed: Some(post(
                "/v1/chat/completions",
                "application/json",
                &prompt.replace("How is the weather?", "fast"),
            )),
            load: requests(32),
        },
        Scenario {
            name: "talk, stream of 50 deltas 5 ms apart, kept",
            gateway: post("/talk", "text/event-stream", message),
            passed: Some(post("/v1/chat/completions", "text/event-stream", prompt)),
            load: Load::Stream { connections: 8 },
        },
        Scenario {
            name: "talk, stream of 50 deltas 5 ms apart, nothing kept",
            gateway: post("/forgetful/talk", "text/event-stream", message),
            passed: Some(post("/v1/chat/completions", "text/event-stream", prompt)),
            load: Load::Stream { connections: 8 },
        },
        Scenario {
            name: "talk, one stream of 50 deltas 5 ms apart, nothing kept",
            gateway: post("/forgetful/talk", "text/event-stream", message),
            passed: Some(post("/v1/chat/completions", "text/event-stream", prompt)),
            load: Load::Stream { connections: 1 },
        },
        Scenario {
            name: "catalog, local answer",
            gateway: get("/.well-known/restap.json"),
            passed: None,
            load: requests(32),
        },
        Scenario {
            name: "news, empty poll",
            gateway: get("/news?since=9007199254740991"),
            passed: None,
            load: requests(32),
        },
        Scenario { name: "news, newest 20", gateway: get("/news?limit=20"), passed: None, load: requests(32) },
        Scenario { name: "news, durable post, 64 writers", gateway: write, passed: None, load: requests(64) },
    ]
}

/// One line a contestant, with its ratio to the bare Pingora proxy.
fn report(scenario: &Scenario, contestants: &[Option<Contestant>], results: Vec<Vec<Measured>>) {
    println!("\n{}", scenario.name);
    let medians: Vec<Option<Measured>> = results.into_iter().map(Measured::median).collect();
    let baseline = medians[1];
    for (contestant, measured) in contestants.iter().zip(&medians) {
        let (Some(contestant), Some(measured)) = (contestant, measured) else { continue };
        let ratio = baseline.map_or(String::new(), |baseline| {
            if baseline.rate > 0.0 {
                format!("  ×{:.2} of Pingora's rate", measured.rate / baseline.rate)
            } else {
                String::new()
            }
        });
        println!("  {:<10} {measured}{ratio}", contestant.name);
    }
}
