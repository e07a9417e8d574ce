//! A thousand agents in one process.

use std::fmt::Write as _;

use super::support::{Call, Gateway, until};

/// So many agents, each with a talk and five capabilities.
fn file(agents: usize) -> String {
    let mut file = "upstreams: {s: {url: 'http://127.0.0.1:9'}}\nadmin: off\nagents:\n".to_owned();
    for agent in 0..agents {
        let talk = "{dialect: openai-chat, model: m}";
        write!(file, "  a{agent}:\n    name: Agent {agent}\n    upstream: s\n    talk: {talk}\n    capabilities:\n")
            .unwrap();
        for capability in 0..5 {
            writeln!(file, "      - {{id: c{capability}.get, endpoint: '/c{capability}/{{id}}'}}").unwrap();
        }
    }
    file
}

/// What a process has worked so far, in hundredths of a second: others on the machine do not count.
fn worked(gateway: &Gateway) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// What so many requests for this path cost.
fn cost(gateway: &Gateway, path: &str) -> u64 {
    let mut connection = gateway.connect();
    let before = worked(gateway);
    for _ in 0..1_000 {
        connection.call(&Call::get(path)).ok();
    }
    worked(gateway) - before
}

#[test]
fn a_thousand_agents_load_in_proportion_and_route_as_fast_as_one() {
    let (one, few, many) = (Gateway::start(&file(1)), Gateway::start(&file(250)), Gateway::start(&file(1_000)));
    let (of_few, of_many) = (worked(&few), worked(&many));
    // Four times as many are four times the work; if each looked at each other it would be sixteen times.
    assert!(of_many < 8 * of_few.max(10), "250 take {of_few} and 1,000 take {of_many} hundredths of a second");
    assert_eq!(many.get("/").ok()["agents"].as_array().unwrap().len(), 1_000);
    for agent in [0, 517, 999] {
        assert_eq!(many.get(&format!("/agents/a{agent}/health")).ok()["agent"], format!("Agent {agent}"));
    }
    many.get("/agents/a1000/health").refused(404, "not_found");
    let alone = cost(&one, "/agents/a0/health");
    // Not the first time, perhaps: a file that has just been written is read once more beside the requests.
    until("one of 1,000 costs as much", || (cost(&many, "/agents/a999/health") < 3 * alone.max(10)).then_some(()));
}
